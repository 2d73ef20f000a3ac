import { useEffect, useId, useState } from "react";

import { ApiError, toApiError } from "../api/client.ts";
import type { Backlinks as Found } from "../api/workspaces.ts";
import { Button } from "../ui/button.tsx";
import { oneLine } from "../ui/tame.ts";
import { count, sentence } from "../ui/text.ts";
import { useFold } from "../ui/use-fold.ts";
import { linkedText, linksByNote } from "./backlinks.ts";
import { folderOf, nameOf } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

/** The notes that link to one, folded. They are looked for when it is opened. */
export function Backlinks({ path, version }: { path: string; version: string }) {
  const files = useFiles();
  const space = useFilesState((s) => s.space);
  const [open, setOpen] = useFold("backlinks", false);
  const [found, setFound] = useState<Found | ApiError>();
  const [again, setAgain] = useState(0);
  const id = useId();

  useEffect(() => {
    if (!open || !space) return;
    const stop = new AbortController();
    setFound(undefined);
    files.workspaces.backlinks(space, path, stop.signal).then(
      (got) => stop.signal.aborted || setFound(got),
      (cause: unknown) => stop.signal.aborted || setFound(toApiError(cause)),
    );
    return () => stop.abort();
  }, [files, space, path, version, open, again]);

  const list = found && !(found instanceof ApiError) ? found : undefined;
  const notes = linksByNote(list?.links ?? []);
  return (
    <section className="mx-auto mt-2 max-w-[46rem] border-t border-border px-5 pt-2 pb-10 text-sm" aria-label="Notes that link here">
      <button type="button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)} className="flex min-h-9 items-center gap-2 rounded-md text-text-muted hover:text-text [@media(pointer:coarse)]:min-h-11">
        <span aria-hidden="true" className={`inline-block transition-transform motion-reduce:transition-none ${open ? "rotate-90" : ""}`}>
          ›
        </span>
        Notes that link here
        {open && list && <span className="tabular-nums">{count(notes.length)}</span>}
      </button>
      <div id={id} hidden={!open} aria-live="polite">
        {open && found === undefined && <p className="py-1 text-text-muted">Looking…</p>}
        {found instanceof ApiError && (
          <p className="flex flex-wrap items-center gap-3 py-1" role="alert">
            {`${sentence(found.message)} ${sentence(found.hint)}`}
            <Button kind="quiet" onClick={() => setAgain(again + 1)}>
              Try again
            </Button>
          </p>
        )}
        {list && notes.length === 0 && <p className="py-1 text-text-muted">{list.partial ? "None was found, but not all notes were looked at." : "No note links here."}</p>}
        <ul>
          {notes.map((n) => (
            <li key={n.path}>
              <button type="button" title={n.path} onClick={() => void files.show(n.path)} className="block w-full rounded-lg px-2.5 py-1.5 text-left hover:bg-surface">
                <bdi className="block truncate font-medium text-link">{oneLine(nameOf(n.path).replace(/\.(?:md|markdown)$/i, ""), 160)}</bdi>
                {folderOf(n.path) !== "" && <bdi className="block truncate text-xs text-text-muted">{oneLine(folderOf(n.path), 160)}</bdi>}
                {n.lines.map((l) => (
                  <bdi key={l.line} className="mt-0.5 line-clamp-2 block text-[13px] leading-5 text-text-muted wrap-anywhere">
                    {linkedText(l.text)}
                  </bdi>
                ))}
              </button>
            </li>
          ))}
        </ul>
        {list?.partial && notes.length > 0 && <p className="py-1 text-xs text-text-muted">There may be more: not all notes were looked at.</p>}
      </div>
    </section>
  );
}
