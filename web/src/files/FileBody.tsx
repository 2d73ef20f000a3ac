import { Suspense, useMemo, useState } from "react";

import { readTable } from "../chat/artifacts/csv.ts";
import { Rows } from "../chat/artifacts/Rows.tsx";
import type { FileContent } from "../api/workspaces.ts";
import { Faults } from "../lake/Faults.tsx";
import { Boundary } from "../ui/boundary.tsx";
import { Button } from "../ui/button.tsx";
import { languageOf } from "../ui/code/languages.ts";
import { lazily } from "../ui/lazily.ts";
import { bytes, count, sentence } from "../ui/text.ts";
import { Backlinks } from "./Backlinks.tsx";
import { kindOf } from "./kind.ts";
import { readNotebook } from "./notebook.ts";
import { nameOf } from "./tree.ts";
import { useContent, useFiles } from "./use-files.ts";

const NoteView = lazily(() => import("./NoteView.tsx"));
const NotebookView = lazily(() => import("./NotebookView.tsx"));
const CodeEditor = lazily(() => import("../ui/code/CodeEditor.tsx"));

interface Props {
  file: FileContent;
  /** The text to show in place of the file's: what was typed. */
  text?: string;
  source: boolean;
  heading: string;
  wish: number;
}

const Scrolls = ({ label, children }: { label: string; children: React.ReactNode }) => (
  <div role="region" aria-label={label} tabIndex={0} className="relative min-h-0 flex-1 overflow-y-auto -outline-offset-2">
    {children}
  </div>
);

/** What is in a file. Nothing of it runs, and nothing from elsewhere is loaded. */
export function FileBody({ file, text = file.text, source, heading, wish }: Props) {
  const kind = kindOf({ ...file, ...(text !== undefined && { text }) });
  const label = `Content of ${nameOf(file.path)}`;
  const raw = (
    <Suspense fallback={null}>
      <CodeEditor key={file.path} readOnly text={text ?? ""} language={languageOf(file.path)} label={label} />
    </Suspense>
  );
  const shown = () => {
    switch (kind) {
      case "markdown":
        return source ? raw : (
          <Scrolls label={label}>
            {text === file.text && file.version !== "" && <Faults path={file.path} version={file.version} />}
            <Suspense fallback={null}>
              <NoteView path={file.path} text={text ?? ""} heading={heading} wish={wish} />
            </Suspense>
            {file.version !== "" && <Backlinks path={file.path} version={file.version} />}
          </Scrolls>
        );
      case "table":
        return source ? raw : <Table file={file} text={text ?? ""} label={label} />;
      case "notebook":
        return source ? raw : <Book text={text ?? ""} label={label} raw={raw} />;
      case "code":
        return raw;
      case "picture":
        return (
          <Scrolls label={label}>
            <Picture file={file} />
          </Scrolls>
        );
      case "pdf":
        return <Pdf file={file} />;
      default:
        return <Other file={file} />;
    }
  };
  return (
    <Boundary key={`${file.path} ${source}`} fallback={<Other file={file} />} retry={file.version}>
      <div className="flex min-h-0 flex-1 flex-col">{shown()}</div>
      {file.next_line !== undefined && <Further file={file} />}
      {file.cut && <p className="border-t border-border px-4 py-1.5 text-xs text-text-muted">A line is too long to be shown whole. The download has everything.</p>}
    </Boundary>
  );
}

/** The part of a long file that is not read yet. */
function Further({ file: f }: { file: FileContent }) {
  const files = useFiles();
  const [state, setState] = useState<"" | "reading" | "failed">("");
  return (
    <p className="flex flex-wrap items-center gap-3 border-t border-border px-4 py-1.5 text-xs text-text-muted" role="status">
      {`Lines 1 to ${count((f.next_line ?? 1) - 1)} of ${count(f.lines ?? 0)} are shown.${state === "failed" ? " The next could not be read." : ""}`}
      <Button
        kind="quiet"
        className="h-8! [@media(pointer:coarse)]:h-11!"
        busy={state === "reading"}
        onClick={() => {
          setState("reading");
          files.readOn().then(() => setState(""), () => setState("failed"));
        }}
      >
        Show more
      </Button>
    </p>
  );
}

function Table({ file, text, label }: { file: FileContent; text: string; label: string }) {
  const table = useMemo(() => readTable(text, /\.tsv$/i.test(file.path) ? "\t" : undefined), [text, file.path]);
  return (
    <Scrolls label={label}>
      <Rows table={table} name={nameOf(file.path)} tall />
    </Scrolls>
  );
}

function Book({ text, label, raw }: { text: string; label: string; raw: React.ReactNode }) {
  const book = useMemo(() => readNotebook(text), [text]);
  if (!book) return raw;
  return (
    <Scrolls label={label}>
      <Suspense fallback={null}>
        <NotebookView book={book} />
      </Suspense>
    </Scrolls>
  );
}

function Picture({ file: f }: { file: FileContent }) {
  const got = useContent(f.path, (f.media_type.split(";")[0] ?? "").trim(), f.version);
  const [large, setLarge] = useState(false);
  if (got === undefined) return <div className="m-4 h-64 animate-pulse-soft rounded-lg bg-surface" />;
  if (got instanceof Error) return <Other file={f} why={`${sentence(got.message)} ${sentence(got.hint)}`} />;
  return (
    <div className={`p-4 ${large ? "overflow-x-auto" : ""}`}>
      <button type="button" aria-label={large ? "Fit into the window" : "Show in its own size"} aria-pressed={large} onClick={() => setLarge(!large)} className={`block rounded-lg bg-white ${large ? "cursor-zoom-out" : "mx-auto max-w-full cursor-zoom-in"}`}>
        <img src={got.url} alt={nameOf(f.path)} className={large ? "max-w-none" : "max-h-[70vh] max-w-full object-contain"} />
      </button>
    </div>
  );
}

/** A PDF in the browser's own viewer. The type of its address is ours, so it is nothing else. */
function Pdf({ file: f }: { file: FileContent }) {
  const got = useContent(f.path, "application/pdf", f.version);
  if (got === undefined) return null;
  if (got instanceof Error) return <Other file={f} why={`${sentence(got.message)} ${sentence(got.hint)}`} />;
  if (navigator.pdfViewerEnabled === false) {
    // On most phones the frame would stay white.
    return (
      <Other file={f} why="This browser does not show PDFs inside a page.">
        <a href={got.url} download={nameOf(f.path)} className="mt-2 inline-flex min-h-8 items-center underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
          Download it
        </a>
      </Other>
    );
  }
  return <iframe title={nameOf(f.path)} src={got.url} className="block min-h-0 w-full flex-1 bg-white" />;
}

function Other({ file: f, why = "This kind of file is not shown here.", children }: { file: FileContent; why?: string; children?: React.ReactNode }) {
  return (
    <div className="m-auto max-w-80 p-6 text-center text-sm text-text-muted">
      <p>{why}</p>
      <p className="mt-1">{bytes(f.size)}</p>
      {children}
    </div>
  );
}
