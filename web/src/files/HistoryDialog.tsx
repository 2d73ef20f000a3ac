import { useEffect, useMemo, useState } from "react";

import { toApiError, type ApiError } from "../api/client.ts";
import type { FileContent, FileVersion } from "../api/workspaces.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { compare } from "../ui/diff/diff.ts";
import DiffView from "../ui/diff/DiffView.tsx";
import { oneLine } from "../ui/tame.ts";
import { ago, sentence } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import { nameOf } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

/** The earlier versions of a file: what each differs in from the file as it is, and the way back to one. */
export default function HistoryDialog({ file, editable, onClose }: { file: FileContent; editable: boolean; onClose(): void }) {
  const files = useFiles();
  const space = useFilesState((s) => s.space);
  const [list, setList] = useState<readonly FileVersion[]>();
  const [next, setNext] = useState<string>();
  const [chosen, setChosen] = useState<FileVersion>();
  const [problem, setProblem] = useState<ApiError>();
  const now = useNow(60_000);
  const read = (after?: string) => {
    if (!space) return;
    files.workspaces.history(space, file.path, after).then(
      (h) => {
        setList((before) => [...(after === undefined ? [] : (before ?? [])), ...(h.versions ?? [])]);
        setNext(h.next);
        if (after === undefined) setChosen(h.versions?.find((v) => !v.deleted && v.id !== file.version) ?? h.versions?.[0]);
      },
      (cause: unknown) => setProblem(toApiError(cause)),
    );
  };
  useEffect(() => read(), [files, space, file.path]);
  return (
    <Dialog wide title={`History of ${nameOf(file.path)}`} onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm sm:flex-row">
        <div className="shrink-0 sm:w-64">
          {list?.length === 0 && <p className="text-text-muted">There are no earlier versions of it.</p>}
          <ol aria-label="Versions, the newest first" className="max-h-[60vh] overflow-y-auto max-sm:max-h-44">
            {list?.map((v) => (
              <li key={v.id}>
                <button
                  type="button"
                  aria-current={v.id === chosen?.id ? "true" : undefined}
                  onClick={() => setChosen(v)}
                  className={`block w-full border-l-2 px-3 py-1.5 text-left -outline-offset-2 ${v.id === chosen?.id ? "border-accent bg-hover" : "border-transparent hover:bg-hover"}`}
                >
                  <span className="block leading-5 wrap-anywhere">{oneLine(v.subject || (v.deleted ? "Deleted" : "A version"), 160)}</span>
                  <span className="block text-xs leading-5 text-text-muted">
                    <time dateTime={v.at} title={new Date(v.at).toLocaleString()}>{ago(v.at, now)}</time>
                    {v.author && ` · ${oneLine(v.author, 60)}`}
                    {v.moved_from && ` · moved from ${oneLine(v.moved_from, 200)}`}
                  </span>
                </button>
              </li>
            ))}
          </ol>
          {next !== undefined && (
            <button type="button" onClick={() => read(next)} className="reach mt-1 px-3 text-xs text-text-muted underline underline-offset-2 hover:text-text-primary">
              Show earlier ones
            </button>
          )}
        </div>
        <div className="min-w-0 flex-1">
          {problem ? (
            <p role="alert" className="text-text-muted">
              {sentence(problem.message)} {sentence(problem.hint)}
            </p>
          ) : chosen ? (
            <Version key={chosen.id} file={file} version={chosen} editable={editable} onClose={onClose} />
          ) : (
            list === undefined && <p className="animate-pulse-soft text-text-muted">Reading the history…</p>
          )}
        </div>
      </div>
    </Dialog>
  );
}

/** A version beside the file as it is now. */
function Version({ file, version: v, editable, onClose }: { file: FileContent; version: FileVersion; editable: boolean; onClose(): void }) {
  const files = useFiles();
  const space = useFilesState((s) => s.space);
  const [was, setWas] = useState<FileContent | ApiError>();
  useEffect(() => {
    if (!space || v.deleted) return;
    const stop = new AbortController();
    files.workspaces.version(space, file.path, v.id, stop.signal).then(
      (f) => stop.signal.aborted || setWas(f),
      (cause: unknown) => stop.signal.aborted || setWas(toApiError(cause)),
    );
    return () => stop.abort();
  }, [files, space, file.path, v]);
  const text = was instanceof Error ? undefined : was?.text;
  const diff = useMemo(() => (text === undefined || file.text === undefined ? undefined : compare(text, file.text)), [text, file.text]);
  if (v.deleted) return <p className="text-text-muted">The file was deleted then.</p>;
  if (was === undefined) return <p className="animate-pulse-soft text-text-muted">Reading this version…</p>;
  if (was instanceof Error) return <p role="alert" className="text-text-muted">{`${sentence(was.message)} ${sentence(was.hint)}`}</p>;
  if (!diff) return <p className="text-text-muted">It is no text, so it cannot be compared here.</p>;
  return (
    <>
      <p className="mb-2 text-text-muted">{diff.hunks.length === 0 ? "The file has not changed since." : "What has changed from this version to the file as it is now:"}</p>
      {diff.hunks.length > 0 && (
        <div className="max-h-[55vh] overflow-y-auto rounded-lg border border-border" tabIndex={0} role="region" aria-label="Changes since this version">
          <DiffView diff={diff} name={nameOf(file.path)} />
        </div>
      )}
      {editable && diff.hunks.length > 0 && !was.next_line && !was.cut && (
        <div className="mt-3 flex flex-wrap items-center gap-3">
          <Button
            kind="accent"
            onClick={() => {
              files.edit();
              files.type(text ?? "");
              onClose();
            }}
          >
            Put it into the editor
          </Button>
          <span className="text-xs text-text-muted">It is saved when you say so.</span>
        </div>
      )}
    </>
  );
}
