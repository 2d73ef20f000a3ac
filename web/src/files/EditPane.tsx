import { Suspense, useMemo } from "react";

import { Button } from "../ui/button.tsx";
import { languageOf } from "../ui/code/languages.ts";
import { compare } from "../ui/diff/diff.ts";
import DiffView from "../ui/diff/DiffView.tsx";
import { Alert } from "../ui/icons.tsx";
import { lazily } from "../ui/lazily.ts";
import { sentence } from "../ui/text.ts";
import type { Draft } from "./files.ts";
import { merged } from "./merge.ts";
import { nameOf } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

const CodeEditor = lazily(() => import("../ui/code/CodeEditor.tsx"));

/** The editor of a file. What cannot be saved is still there. */
export default function EditPane({ path, draft: d, onSave }: { path: string; draft: Draft; onSave(): void }) {
  const files = useFiles();
  const newer = useFilesState((s) => (s.doc?.path === path && s.doc.file && d.base.version !== undefined && s.doc.file.version !== d.base.version ? s.doc.file : undefined));
  return (
    <>
      {d.conflict ? (
        <Conflict path={path} draft={d} />
      ) : (
        newer && (
          <p role="status" className="border-b border-border bg-surface px-4 py-2 text-sm text-text-muted">
            The file has changed since you began to edit it. When you save, you see both.
          </p>
        )
      )}
      {d.error && (
        <p role="alert" className="flex gap-2 border-b border-danger/40 bg-danger-surface px-4 py-2 text-sm">
          <span className="mt-0.5 text-danger">
            <Alert size={16} />
          </span>
          <span className="min-w-0 wrap-anywhere">
            It is not saved. {sentence(d.error.message)} <span className="text-text-muted">{sentence(d.error.hint)} What you typed is still here.</span>
          </span>
        </p>
      )}
      <div className="min-h-0 flex-1">
        <Suspense fallback={null}>
          <CodeEditor
            key={path}
            autoFocus
            text={d.text}
            language={languageOf(path)}
            label={`Text of ${nameOf(path)}`}
            names={() => {
              void files.name();
              return (files.store.getState().names?.all ?? []).filter((n) => /\.(?:md|markdown)$/i.test(n)).map((n) => n.replace(/\.[^.]+$/, ""));
            }}
            onChange={(text) => files.type(text)}
            onSave={onSave}
          />
        </Suspense>
      </div>
    </>
  );
}

/** Somebody else has changed the file meanwhile: what differs, and the ways to go on. None loses a text unseen. */
function Conflict({ path, draft: d }: { path: string; draft: Draft }) {
  const files = useFiles();
  const theirs = d.conflict?.file;
  const diff = useMemo(() => compare(theirs?.text ?? "", d.text), [theirs, d.text]);
  const together = useMemo(() => merged(d, theirs) !== undefined, [d, theirs]);
  return (
    <section aria-label="Conflict" role="alert" className="flex max-h-[60%] shrink-0 flex-col border-b border-accent/60 bg-surface">
      <div className="px-4 pt-3 pb-2 text-sm">
        <p className="font-semibold">{theirs ? "Somebody else has changed this file since you opened it." : "Somebody else has deleted or moved this file."}</p>
        <p className="text-text-muted">Nothing was saved, and what you typed is still here.{theirs && " Below is what yours would change in theirs."}</p>
      </div>
      {theirs && (
        <div className="min-h-0 flex-1 overflow-y-auto border-y border-border bg-bg" role="region" aria-label="What yours would change in theirs" tabIndex={0}>
          <DiffView diff={diff} name={nameOf(path)} />
        </div>
      )}
      <div className="flex flex-wrap gap-2 px-4 py-2.5">
        {together && (
          <Button kind="accent" onClick={() => void files.settle("merge")}>
            Put both together
          </Button>
        )}
        <Button kind="quiet" busy={d.saving} onClick={() => void files.settle("mine")}>
          {theirs ? "Replace theirs by mine" : "Save mine as a new file"}
        </Button>
        <Button kind="quiet" onClick={() => void files.saveCopy().then((copy) => (copy === undefined ? undefined : files.show(copy)))}>
          Save mine as a copy
        </Button>
        {theirs && (
          <Button kind="quiet" onClick={() => void files.settle("theirs")}>
            Take theirs
          </Button>
        )}
      </div>
    </section>
  );
}
