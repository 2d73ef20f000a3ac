// Renders Markdown piece by piece: while an answer streams only its last piece changes, so only
// that one is parsed again. The text cannot produce raw HTML, and pictures stay links, because
// loading one would tell another server that this answer was read.

import { Children, createContext, isValidElement, memo, use, useDeferredValue, useMemo, useRef, type ReactElement, type ReactNode } from "react";
import ReactMarkdown, { type Components, type ExtraProps } from "react-markdown";
import remarkGfm from "remark-gfm";

import { cut, piecesOf, uncut, type Piece } from "./blocks.ts";
import { Boundary } from "./boundary.tsx";
import { Highlighted } from "./code/Highlighted.tsx";
import { CopyButton } from "./copy.tsx";
import { DocContext, docPlugin } from "./doc-links.ts";
import { leadsPlugin, LeadsContext, type Lead } from "./leads.ts";
import { LongText } from "./long-text.tsx";
import { tame, tameCode } from "./tame.ts";
import { closed, finished } from "./unfinished.ts";

const plugins = [remarkGfm];

/** Each paragraph, list and table has the direction of its own first letter: an answer in Arabic may name a sensor in between. */
const directions = () => (tree: Nodes) => {
  for (const node of tree.children) if (node.type === "element") node.properties.dir = "auto";
};
type Nodes = { children: (NonNullable<ExtraProps["node"]> | { type: "text" | "comment" | "doctype" | "raw" })[] };
const afterwards = [directions];

const components: Components = {
  pre: ({ children }) => <Pre>{children}</Pre>,
  code: ({ className, children }) => <code className={className}>{typeof children === "string" ? tameCode(children) : children}</code>,
  table: ({ children, dir }) => (
    <div className="sheet" tabIndex={0} role="region" aria-label="Table" dir={dir}>
      <table>{children}</table>
    </div>
  ),
  // A column is as wide as its longest word, and a date would break at a hyphen.
  td: ({ children, style }) => (
    <td style={style} className={typeof children === "string" && /^\d{4}-\d\d-\d\d$/.test(children) ? "whitespace-nowrap" : undefined}>
      {children}
    </td>
  ),
  blockquote: ({ node, children, dir }) => (isEvidence(node) ? <Evidence>{children}</Evidence> : <blockquote dir={dir}>{children}</blockquote>),
  a: ({ href, children, ...rest }) => {
    const { "data-lead": lead, "data-doc": inDoc } = rest as { "data-lead"?: string; "data-doc"?: string };
    if (lead !== undefined) return <LeadLink number={Number(lead)}>{children}</LeadLink>;
    return <Anchor href={inDoc ?? href}>{children}</Anchor>;
  },
  img: ({ src, alt, ...rest }) => <Shown src={(rest as { "data-doc"?: string })["data-doc"] ?? (typeof src === "string" ? src : undefined)} alt={alt ?? ""} />,
  input: ({ checked }) => <input type="checkbox" checked={checked ?? false} readOnly disabled aria-label={checked ? "done" : "open"} />,
};

/** An address of a scheme, or of another server. */
const isOutside = (href: string | undefined): boolean => href === undefined || /^(?:(?!wiki:)[a-z][a-z0-9+.-]*:|\/\/)/i.test(href);

function Anchor({ href, children }: { href: string | undefined; children?: ReactNode }) {
  const doc = use(DocContext);
  if (doc && href !== undefined && !isOutside(href)) return <doc.Link href={href}>{children}</doc.Link>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}

/** A picture stays a link, unless it is beside the document that has it. */
function Shown({ src, alt }: { src: string | undefined; alt: string }) {
  const doc = use(DocContext);
  if (doc && src !== undefined && !isOutside(src)) return <doc.Picture src={src} alt={alt} />;
  return (
    <a href={src} target="_blank" rel="noopener noreferrer">
      {alt || "picture"}
    </a>
  );
}

/** The heading of an answer's evidence: bold, and alone on its line. */
const evidence = "Evidence";

function isEvidence(node: ExtraProps["node"]): boolean {
  const first = node?.children.find((c) => c.type === "element");
  const bold = first?.tagName === "p" && first.children.length === 1 ? first.children[0] : undefined;
  const text = bold?.type === "element" && bold.tagName === "strong" ? bold.children[0] : undefined;
  return text?.type === "text" && text.value === evidence;
}

/** Evidence is folded, because the answer is above it. */
function Evidence({ children }: { children: ReactNode }) {
  const all = Children.toArray(children);
  const first = all.findIndex((c) => isValidElement(c));
  return (
    <details className="evidence">
      <summary>{evidence}</summary>
      {all.slice(first + 1)}
    </details>
  );
}

/** The leads of a piece, by number. */
const FoundContext = createContext<readonly Lead[]>([]);

/** A lead in the text. It is inline text, so that it wraps and can be copied. */
function LeadLink({ number, children }: { number: number; children: ReactNode }) {
  const lead = use(FoundContext)[number];
  if (!lead) return children;
  return (
    <span
      role="link"
      tabIndex={0}
      className="lead cursor-pointer"
      onClick={() => lead.open()}
      onKeyDown={(e) => {
        if (e.key !== "Enter") return;
        e.preventDefault();
        lead.open();
      }}
    >
      {children}
    </span>
  );
}

function Marked({ text }: { text: string }) {
  const find = use(LeadsContext);
  // Each rendering finds the leads again, and numbers them as it finds them.
  const doc = use(DocContext);
  const { found, all } = useMemo(() => {
    const found: Lead[] = [];
    return { found, all: [...plugins, ...(find ? [leadsPlugin((t) => find(t), found)] : []), ...(doc ? [docPlugin((t) => doc.found(t))] : [])] };
  }, [find, text, doc]);
  found.length = 0;
  return (
    <FoundContext value={found}>
      <ReactMarkdown remarkPlugins={all} rehypePlugins={afterwards} components={components}>
        {text}
      </ReactMarkdown>
    </FoundContext>
  );
}

const Drawn = memo(function Drawn({ piece }: { piece: Piece }) {
  switch (piece.kind) {
    case "plain":
      return <Plain text={piece.text} />;
    case "code":
      return <CodeBlock text={piece.text} language={piece.language} />;
    case "markdown":
      return (
        <Boundary fallback={<Plain text={piece.text} />} retry={piece.text.slice(0, 64)}>
          <Marked text={piece.text} />
        </Boundary>
      );
  }
}, (a, b) => samePiece(a.piece, b.piece));

const samePiece = (a: Piece, b: Piece): boolean =>
  a.kind === b.kind && a.text === b.text && (a.kind !== "code" || b.kind !== "code" || a.language === b.language);

/** Longer texts render in steps, so that the page stays responsive. */
const long = 20_000;

interface Props {
  text: string;
  /** It grows. */
  streaming?: boolean;
  /** It was cut off, and does not grow any more. */
  partial?: boolean;
}

export const Markdown = memo(function Markdown({ text, streaming = false, partial = false }: Props) {
  const later = useDeferredValue(text, "");
  return <Pieces text={text.length > long ? later : text} streaming={streaming} partial={partial} />;
});

const Pieces = memo(function Pieces({ text, streaming, partial }: Required<Props>) {
  const before = useRef(uncut);
  const all = useMemo(() => piecesOf((before.current = cut(tame(text), before.current))), [text]);
  const pieces = useMemo(() => (streaming ? ended(all, finished) : partial ? ended(all, closed) : all), [all, streaming, partial]);
  return (
    <div className={streaming ? "prose streaming" : "prose"}>
      {pieces.map((piece, i) => (
        <Drawn key={i} piece={piece} />
      ))}
    </div>
  );
});

function ended(pieces: Piece[], end: (text: string) => string): Piece[] {
  const last = pieces.at(-1);
  return last?.kind === "markdown" ? [...pieces.slice(0, -1), { kind: "markdown", text: end(last.text) }] : pieces;
}

/** Text that is too expensive to render as Markdown. */
const Plain = ({ text }: { text: string }) => (
  <div className="plain font-mono text-[13px] leading-relaxed whitespace-pre-wrap">
    <LongText text={text} />
  </div>
);

/** Code inside a list or a quote. */
function Pre({ children }: { children: ReactNode }) {
  const code = isValidElement(children) ? (children as ReactElement<{ className?: string; children?: ReactNode }>) : undefined;
  const language = /language-(\S+)/.exec(code?.props.className ?? "")?.[1] ?? "";
  return <CodeBlock text={String(code?.props.children ?? "").replace(/\n$/, "")} language={language} />;
}

function CodeBlock({ text, language }: { text: string; language: string }) {
  const shown = useMemo(() => tameCode(text), [text]);
  return (
    <div className="code overflow-hidden rounded-xl border border-border bg-surface">
      <div className="flex h-9 items-center justify-between gap-2 border-b border-border pr-1 pl-4 font-mono text-xs text-text-muted">
        <span className="min-w-0 truncate">{language.slice(0, 40) || "text"}</span>
        <CopyButton label="Copy code" className="size-7" text={() => text} />
      </div>
      <pre className="overflow-x-auto px-4 py-3 font-mono text-[13px] leading-relaxed" tabIndex={0} aria-label={`Code${language ? `, ${language.slice(0, 40)}` : ""}`} role="region">
        <code>
          <Highlighted text={shown} language={language} />
        </code>
      </pre>
    </div>
  );
}
