import { Highlighted } from "../ui/code/Highlighted.tsx";
import { Folded } from "../ui/long-text.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { tameCode } from "../ui/tame.ts";
import { count } from "../ui/text.ts";
import type { Cell, Notebook, Output } from "./notebook.ts";

/** The cells of a notebook and what they gave. Nothing runs. */
export default function NotebookView({ book }: { book: Notebook }) {
  return (
    <div className="mx-auto flex max-w-[52rem] flex-col gap-4 px-5 pt-4 pb-16">
      {book.cells.map((c, i) => (
        <CellView key={i} cell={c} language={book.language} nth={i + 1} />
      ))}
      {book.cells.length === 0 && <p className="text-text-muted">This notebook is empty.</p>}
      {book.more > 0 && <p className="text-sm text-text-muted">{count(book.more)} more cells are not shown.</p>}
    </div>
  );
}

function CellView({ cell: c, language, nth }: { cell: Cell; language: string; nth: number }) {
  if (c.kind === "markdown") return <Markdown text={c.source} />;
  return (
    <section aria-label={`Cell ${nth}`} className="overflow-hidden rounded-lg border border-border">
      <pre className="overflow-x-auto bg-surface px-3.5 py-2.5 font-mono text-[13px] leading-relaxed" tabIndex={0} role="region" aria-label={`Source of cell ${nth}`}>
        <code>
          <Highlighted text={tameCode(c.source)} language={c.kind === "code" ? language : ""} />
        </code>
      </pre>
      {c.outputs.map((o, i) => (
        <div key={i} className="border-t border-border px-3.5 py-2">
          <OutputView output={o} nth={nth} />
        </div>
      ))}
    </section>
  );
}

function OutputView({ output: o, nth }: { output: Output; nth: number }) {
  switch (o.kind) {
    case "text":
      return (
        <pre className={`font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap ${o.error ? "text-danger" : ""}`}>
          <Folded text={o.text} longest={3000} />
        </pre>
      );
    case "picture":
      return <img src={`data:${o.type};base64,${o.data}`} alt={`Output of cell ${nth}`} className="max-w-full rounded bg-white" />;
    case "hidden":
      return <p className="text-xs text-text-muted">An output is not shown here{o.what && `: ${o.what}`}.</p>;
  }
}
