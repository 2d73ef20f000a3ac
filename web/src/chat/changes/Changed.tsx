import { Suspense, useId, useState, type ReactNode } from "react";

import type { FileSaved } from "../../api/types.gen.ts";
import type { Changed } from "../../session/changes.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { IconButton } from "../../ui/button.tsx";
import { Chevron, Open } from "../../ui/icons.tsx";
import { lazily } from "../../ui/lazily.ts";
import { oneLine } from "../../ui/tame.ts";
import { count } from "../../ui/text.ts";
import { useOpenFile } from "./open-file.ts";

// Loaded late: few conversations change files.
const Patches = lazily(() => import("./Patches.tsx"));

const whats: Record<Changed["what"], string> = { created: "new", changed: "", deleted: "deleted", undone: "as before" };

/** Files that were changed; each can be unfolded to see how. */
export function ChangedFiles({ files }: { files: readonly Changed[] }) {
  return (
    <ul className="flex flex-col">
      {files.map((f) => (
        <ChangedFile key={f.path} file={f} />
      ))}
    </ul>
  );
}

function ChangedFile({ file: f }: { file: Changed }) {
  const [open, setOpen] = useState(false);
  const opens = useOpenFile();
  const id = useId();
  return (
    <li data-changed={f.path} className="border-t border-border first:border-t-0">
      <div className="flex items-center pr-1">
        <button
          type="button"
          aria-expanded={open}
          aria-controls={id}
          onClick={() => setOpen(!open)}
          className="flex min-h-9 min-w-0 flex-1 items-center gap-2 px-3 py-1.5 text-left hover:text-text-primary [@media(pointer:coarse)]:min-h-11"
        >
          <span className={`text-text-muted transition-transform ${open ? "rotate-90" : ""}`}>
            <Chevron size={14} />
          </span>
          <bdi className="min-w-0 wrap-anywhere text-text-primary">{oneLine(f.path, 300)}</bdi>
          {whats[f.what] !== "" && <span className="shrink-0 text-text-muted">{whats[f.what]}</span>}
          <Counts added={f.added} removed={f.removed} />
        </button>
        {opens && f.what !== "deleted" && (
          <IconButton label={`Open ${oneLine(f.path, 120)}`} onClick={() => opens(f.path)}>
            <Open size={16} />
          </IconButton>
        )}
      </div>
      <div id={id} hidden={!open}>
        {open && <Body saved={f.saved} />}
      </div>
    </li>
  );
}

function Body({ saved }: { saved: readonly FileSaved[] }) {
  return (
    <Boundary fallback={<p className="px-3.5 py-2.5 text-text-muted">This change cannot be shown.</p>}>
      <Suspense fallback={<div className="h-16" />}>
        <Patches saved={saved} />
      </Suspense>
    </Boundary>
  );
}

/** How many lines a change added and removed. */
export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <span className="ml-auto flex shrink-0 gap-1.5 pl-1 font-mono text-xs tabular-nums">
      {added > 0 && (
        <span className="text-added">
          <span aria-hidden="true">+{count(added)}</span>
          <span className="sr-only">{count(added)} added</span>
        </span>
      )}
      {removed > 0 && (
        <span className="text-danger">
          <span aria-hidden="true">−{count(removed)}</span>
          <span className="sr-only">{count(removed)} removed</span>
        </span>
      )}
    </span>
  );
}

/** The box around what was, or will be, changed. */
export function ChangeBox({ children }: { children: ReactNode }) {
  return <div className="overflow-hidden rounded-lg border border-border bg-bg text-[13px] leading-5">{children}</div>;
}
