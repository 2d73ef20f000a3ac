import { useMemo } from "react";

import { changesOf } from "../../session/changes.ts";
import { useFold } from "../../ui/use-fold.ts";
import { Chevron } from "../../ui/icons.tsx";
import { count } from "../../ui/text.ts";
import type { Event } from "../../api/types.gen.ts";
import { ChangedFiles, Counts } from "./Changed.tsx";

/** What a turn changed in the workspace: a line, under which each file can be unfolded. */
export function Changes({ turn, events }: { turn: string; events: readonly Event[] }) {
  const files = useMemo(() => changesOf(events), [events]);
  const [open, setOpen] = useFold(`changes ${turn}`, files.length <= 3);
  if (files.length === 0) return null;
  const sum = (of: "added" | "removed") => files.reduce((n, f) => n + f[of], 0);
  const name = `changes-${turn}`;
  return (
    <section aria-label="Changed files" className="overflow-hidden rounded-xl border border-border text-[13px] leading-5">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={name}
        onClick={() => setOpen(!open)}
        className="flex min-h-10 w-full items-center gap-2 bg-surface px-3 py-1.5 text-left font-medium hover:text-text-primary [@media(pointer:coarse)]:min-h-11"
      >
        <span className={`text-text-muted transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={14} />
        </span>
        {files.length === 1 ? "1 file changed" : `${count(files.length)} files changed`}
        <Counts added={sum("added")} removed={sum("removed")} />
      </button>
      <div id={name} hidden={!open} className="border-t border-border">
        {open && <ChangedFiles files={files} />}
      </div>
    </section>
  );
}
