// An answer cut into pieces that can be drawn one by one. What an answer says is
// not ours to choose, so what it may cost is: a piece has a bound on its size, its
// markup and its nesting, and an answer has one on all of them together. What is
// beyond them is shown as it was written.

import { Lexer, type Token, type Tokens } from "marked";

export type Piece =
  /** Markdown that means the same on its own. */
  | { kind: "markdown"; text: string }
  | { kind: "code"; text: string; language: string }
  /** Shown as it was written. */
  | { kind: "plain"; text: string };

/**
 * Measured in Chromium on a slow machine: a piece at its bounds takes under 0.3 s
 * to draw, and an ordinary one of 2,000 characters 5 ms.
 */
export const bounds = {
  /** Characters of one piece. */
  piece: 20_000,
  /** Characters up to which neighbours are one piece. */
  small: 1_500,
  /** Characters of one piece that may be markup: what parsing costs goes by them. */
  markup: 1_500,
  /** Quotes and lists in one another. */
  nesting: 16,
  /** Columns before a list's mark, which is how lists nest over lines. */
  indent: 64,
  /** Characters of all pieces of an answer that are Markdown, with the definitions that they use. */
  all: 200_000,
  /** Markup of all pieces of an answer. */
  allMarkup: 20_000,
  /** Definitions of links and footnotes in an answer. */
  definitions: 1_000,
  /** Definitions that one piece may use. */
  used: 50,
} as const;

/** A top-level block, with the links and notes that it may refer to. */
interface Block {
  pieces: readonly Cut[];
  /** Where it ends in the text; NaN where that is not known. */
  end: number;
  definition?: { label: string; raw: string };
  space: boolean;
}

type Cut = Piece & { refs?: readonly string[] };

/** What is known of a text that grows: its blocks. */
export interface Cutting {
  text: string;
  blocks: readonly Block[];
}

export const uncut: Cutting = { text: "", blocks: [] };

/** Cuts a text. Of one that has only grown, nothing but its last block is looked at again. */
export function cut(text: string, before: Cutting = uncut): Cutting {
  if (text === before.text) return before;
  const kept = text.startsWith(before.text) ? stable(before.blocks) : [];
  const from = kept.at(-1)?.end ?? 0;
  return { text, blocks: [...kept, ...blocksOf(text.slice(from), from)] };
}

/** The blocks that more text cannot change. A list may go on after a space. */
function stable(blocks: readonly Block[]): readonly Block[] {
  if (Number.isNaN(blocks.at(-1)?.end)) return [];
  let last = blocks.length - 1;
  while (last >= 0 && blocks[last]?.space) last--;
  return blocks.slice(0, Math.max(0, last));
}

function blocksOf(text: string, offset: number): Block[] {
  const drawn = drawable(text, bounds.all - offset);
  const blocks: Block[] = [];
  let end = offset;
  try {
    for (const token of new Lexer({ gfm: true }).blockTokens(text.slice(0, drawn))) {
      end += token.raw.length;
      blocks.push({ ...blockOf(token), end });
    }
  } catch {
    // Nested deeper than the lexer's stack, by a way that we do not know.
    return [{ pieces: [plain(text)], end: offset + text.length, space: false }];
  }
  if (end !== offset + drawn) for (const b of blocks) b.end = Number.NaN;
  if (drawn < text.length) blocks.push({ pieces: [plain(text.slice(drawn))], end: offset + text.length, space: false });
  return blocks;
}

/** How far the text may be given to the lexer: up to the paragraph that nests too deeply, and not too far. */
function drawable(text: string, most: number): number {
  if (most <= 0) return 0;
  let paragraph = 0;
  let fence = "";
  for (let at = 0; at < text.length; ) {
    const next = text.indexOf("\n", at);
    const end = next < 0 ? text.length : next + 1;
    if (end > most) return paragraph > 0 ? paragraph : Math.min(at > 0 ? at : most, text.length);
    const line = text.slice(at, end);
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (fence === "") {
      if (line.trim() === "") paragraph = end;
      else if (tooDeep(line)) return paragraph;
      fence = mark;
    } else if (mark.startsWith(fence) && line.trim() === mark) {
      fence = "";
    }
    at = end;
  }
  return text.length;
}

const container = /[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t]))/y;

/** Whether a line begins inside of too many quotes and lists. */
function tooDeep(line: string): boolean {
  let marks = 0;
  container.lastIndex = 0;
  while (container.test(line)) {
    marks++;
    if (marks > bounds.nesting || container.lastIndex - marks > bounds.indent) return true;
  }
  return false;
}

function blockOf(token: Token): Omit<Block, "end"> {
  const label = /^ {0,3}\[(\^?[^\]]+)\]:/.exec(token.raw)?.[1];
  if (label !== undefined && (token.type === "def" || label.startsWith("^"))) {
    return { pieces: [], space: false, definition: { label: named(label), raw: token.raw } };
  }
  if (token.type === "space") return { pieces: [], space: true };
  if (token.type === "code") {
    const { text, lang } = token as Tokens.Code;
    return { pieces: [{ kind: "code", text, language: /^\S*/.exec(lang ?? "")?.[0] ?? "" }], space: false };
  }
  return { pieces: fits(token.raw) ? [markdown(token.raw)] : divided(token), space: false };
}

/** What is too much for one piece, as several: lists by their items, tables by their rows. */
function divided(token: Token): Cut[] {
  if (token.type === "list") return grouped((token as Tokens.List).items.map((i) => i.raw), "");
  if (token.type === "table") {
    const [head = "", rule = "", ...rows] = token.raw.trimEnd().split("\n").map((l) => `${l}\n`);
    return grouped(rows, head + rule);
  }
  return [plain(token.raw)];
}

function grouped(parts: readonly string[], head: string): Cut[] {
  const pieces: Cut[] = [];
  let group = "";
  const flush = () => {
    if (group !== "") pieces.push(markdown(head + group));
    group = "";
  };
  for (const part of parts) {
    // Not filled up: what is drawn again with each word of a list that grows is its last piece.
    if (group !== "" && !fits(head + group + part, 4)) flush();
    if (fits(head + part)) group += part;
    else pieces.push(plain(part));
  }
  flush();
  return pieces;
}

/** Whether a text can be drawn as one piece, or as this part of one. */
function fits(text: string, part = 1): boolean {
  if (text.length > bounds.piece / part || markupIn(text) > bounds.markup / part) return false;
  return part > 1 || !text.split("\n").some(tooDeep);
}

/** The characters of a text that may be markup; lines count, since each may begin a block. */
export const markupIn = (text: string): number => text.match(/[*_~`[\]<>|!\\&\n]|(?:^|(?<=\n))[ \t]*(?:[-+#]|\d+[.)])/g)?.length ?? 0;

const plain = (text: string): Cut => ({ kind: "plain", text });

const refsIn = (text: string): string[] => [...new Set(Array.from(text.matchAll(/\[(\^?[^[\]]{1,200})\]/g), (m) => named(m[1] ?? "")))];

function markdown(text: string): Cut {
  const refs = refsIn(text);
  return { kind: "markdown", text, ...(refs.length > 0 && { refs }) };
}

const named = (label: string): string => label.trim().replace(/\s+/g, " ").toLowerCase();

interface Definition {
  raw: string;
  refs: readonly string[];
}

/** The pieces of a cut text, each with the definitions that it uses: any may use them, and few do. */
export function piecesOf({ blocks }: Cutting): Piece[] {
  const definitions = new Map<string, Definition>();
  for (const { definition: d } of blocks) {
    if (!d || definitions.has(d.label) || definitions.size >= bounds.definitions) continue;
    // A note may refer to another, and that one to the first.
    definitions.set(d.label, { raw: d.raw, refs: d.label.startsWith("^") ? refsIn(d.raw.slice(d.raw.indexOf(":"))) : [] });
  }
  let size = 0;
  let markup = 0;
  return together(blocks.flatMap((b) => b.pieces)).map((c): Piece => {
    if (c.kind !== "markdown") return c;
    const text = definitions.size > 0 ? c.text + definitionsFor(c.refs ?? [], definitions) : c.text;
    size += text.length;
    markup += markupIn(text);
    const tooMuch = size > bounds.all || markup > bounds.allMarkup || (text !== c.text && !fits(text));
    return { kind: tooMuch ? "plain" : "markdown", text: tooMuch ? c.text : text };
  });
}

/** Neighbours that are small, as one: each piece has a price of its own. */
function together(cuts: readonly Cut[]): Cut[] {
  const all: Cut[] = [];
  for (const c of cuts) {
    const last = all.at(-1);
    if (last?.kind === "plain" && c.kind === "plain") {
      all[all.length - 1] = plain(last.text + c.text);
    } else if (last?.kind === "markdown" && c.kind === "markdown" && last.text.length + c.text.length < bounds.small) {
      const refs = [...(last.refs ?? []), ...(c.refs ?? [])];
      all[all.length - 1] = { kind: "markdown", text: `${last.text.trimEnd()}\n\n${c.text}`, ...(refs.length > 0 && { refs }) };
    } else {
      all.push(c);
    }
  }
  return all;
}

function definitionsFor(refs: readonly string[], definitions: ReadonlyMap<string, Definition>): string {
  const used = new Set<string>();
  const queue = [...refs];
  let text = "";
  for (let at = 0; at < queue.length && used.size < bounds.used && text.length < bounds.piece; at++) {
    const name = queue[at] ?? "";
    const definition = definitions.get(name);
    if (!definition || used.has(name)) continue;
    used.add(name);
    text += `\n\n${definition.raw}`;
    queue.push(...definition.refs);
  }
  return text;
}
