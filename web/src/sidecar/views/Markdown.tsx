/** @jsxImportSource preact */
// Answers are Markdown. Elements are made from its tokens, never from HTML, so a text can bring none, and pictures stay links:
// loading one would tell another server that the answer was read. What a text may cost is bounded by ui/blocks.ts.

import { Lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { useMemo, useRef } from "preact/hooks";

import { cut, piecesOf, uncut, type Piece } from "../../ui/blocks.ts";
import { tame, tameCode } from "../../ui/tame.ts";
import { finished } from "../../ui/unfinished.ts";
import { memo } from "./memo.ts";

export const Markdown = memo(function Markdown({ text, streaming }: { text: string; streaming: boolean }) {
  const before = useRef(uncut);
  const pieces = useMemo(() => piecesOf((before.current = cut(tame(text), before.current))), [text]);
  return (
    <div class="prose" dir="auto">
      {pieces.map((p, i) => (
        <Drawn key={i} kind={p.kind} text={streaming && i === pieces.length - 1 && p.kind === "markdown" ? finished(p.text) : p.text} />
      ))}
    </div>
  );
});

const Drawn = memo(function Drawn({ kind, text }: { kind: Piece["kind"]; text: string }) {
  if (kind === "code") return <Code text={text} />;
  if (kind === "plain") return <div class="plain">{text}</div>;
  try {
    return <>{blocks(new Lexer({ gfm: true }).lex(text))}</>;
  } catch {
    return <div class="plain">{text}</div>;
  }
});

const Code = ({ text }: { text: string }) => (
  <pre tabIndex={0} role="region" aria-label="Code" dir="ltr">
    <code>{tameCode(text)}</code>
  </pre>
);

const blocks = (tokens: readonly Token[]): ComponentChildren => tokens.map((t, i) => <Block key={i} t={t} />);

function Block({ t: token }: { t: Token }): ComponentChildren {
  const t = token as Tokens.Generic;
  switch (t.type) {
    case "heading": {
      // The panel has the headings above these.
      const Tag = `h${Math.min(6, (t as Tokens.Heading).depth + 2)}` as "h3";
      return <Tag dir="auto">{inline(t.tokens)}</Tag>;
    }
    case "paragraph":
      return <p dir="auto">{inline(t.tokens)}</p>;
    case "text":
      return t.tokens ? <>{inline(t.tokens)}</> : <>{decoded((t as Tokens.Text).text)}</>;
    case "list":
      return <List t={t as Tokens.List} />;
    case "blockquote":
      return <blockquote dir="auto">{blocks(t.tokens ?? [])}</blockquote>;
    case "code":
      return <Code text={(t as Tokens.Code).text} />;
    case "table":
      return <Table t={t as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "checkbox":
      return <Box checked={(t as Tokens.Checkbox).checked} />;
    case "space":
    case "def":
      return null;
    case "html":
      return <p dir="auto">{t.raw.trim()}</p>;
  }
  return t.tokens ? <p dir="auto">{inline([token])}</p> : <>{inline([token])}</>;
}

const Box = ({ checked }: { checked: boolean }) => <input type="checkbox" checked={checked} disabled aria-label={checked ? "done" : "open"} />;

function List({ t }: { t: Tokens.List }) {
  const items = t.items.map((item, i) => (
    <li key={i} dir="auto" class={item.task ? "task" : undefined}>
      {item.task && !item.tokens.some((x) => x.type === "checkbox" || ("tokens" in x && x.tokens?.some((y) => y.type === "checkbox"))) && <Box checked={item.checked ?? false} />}
      {blocks(item.tokens)}
    </li>
  ));
  return t.ordered ? <ol start={t.start === "" ? 1 : t.start}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ t }: { t: Tokens.Table }) {
  const cell = (c: Tokens.TableCell, i: number) => {
    const style = c.align ? { textAlign: c.align } : {};
    return c.header ? (
      <th key={i} scope="col" style={style}>
        {inline(c.tokens)}
      </th>
    ) : (
      <td key={i} style={style}>
        {inline(c.tokens)}
      </td>
    );
  };
  return (
    <div class="sheet" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>{t.header.map(cell)}</tr>
        </thead>
        <tbody>
          {t.rows.map((row, i) => (
            <tr key={i}>{row.map(cell)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(tokens: readonly Token[] | undefined): ComponentChildren {
  return (tokens ?? []).map((token, i) => {
    const t = token as Tokens.Generic;
    switch (t.type) {
      case "strong":
        return <strong key={i}>{inline(t.tokens)}</strong>;
      case "em":
        return <em key={i}>{inline(t.tokens)}</em>;
      case "del":
        return <del key={i}>{inline(t.tokens)}</del>;
      case "codespan":
        return <code key={i}>{tameCode((t as Tokens.Codespan).text)}</code>;
      case "br":
        return <br key={i} />;
      case "link": {
        const { href, tokens: inner } = t as Tokens.Link;
        return <Anchor key={i} href={href}>{inline(inner)}</Anchor>;
      }
      case "image": {
        const { href, text } = t as Tokens.Image;
        return <Anchor key={i} href={href}>{text || "picture"}</Anchor>;
      }
      case "escape":
        return (t as Tokens.Escape).text;
      case "checkbox":
        return <Box key={i} checked={(t as Tokens.Checkbox).checked} />;
      case "text":
        return t.tokens ? inline(t.tokens) : decoded((t as Tokens.Text).text);
    }
    return t.raw; // HTML is shown as it is written
  });
}

/** Only what leads to a page or writes a mail is a link. An address of the host page opens there, others beside it. */
function Anchor({ href, children }: { href: string; children: ComponentChildren }) {
  const url = addressOf(decoded(href));
  if (!url) return <>{children}</>;
  const here = url.origin === location.origin;
  return (
    <a href={url.href} {...(!here && { target: "_blank" })} rel="noopener noreferrer">
      {children}
    </a>
  );
}

function addressOf(href: string): URL | undefined {
  try {
    const url = new URL(href, document.baseURI);
    return /^(https?|mailto):$/.test(url.protocol) ? url : undefined;
  } catch {
    return undefined;
  }
}

const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", hellip: "…", ndash: "–", mdash: "—", copy: "©", reg: "®", trade: "™", euro: "€", middot: "·", bull: "•", rarr: "→", larr: "←", times: "×" };

/** Character references, which the lexer leaves to the browser. */
const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,8}));/gi, (all, dec: string | undefined, hex: string | undefined, name: string | undefined) => {
    if (name !== undefined) return entities[name] ?? all;
    const code = dec !== undefined ? Number(dec) : Number.parseInt(hex ?? "", 16);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? tame(String.fromCodePoint(code)) : "\ufffd";
  });
