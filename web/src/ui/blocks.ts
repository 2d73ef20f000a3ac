// Cuts an answer into pieces that can be rendered separately. We do not choose what an answer
// contains, but we limit what rendering it may cost: a piece is limited in size, markup and
// nesting, and an answer in the sum of all pieces. Anything beyond is shown as plain text.

import { Lexer, type Token, type Tokens } from "marked";

export type Piece =
  /** Markdown that means the same on its own. */
  | { kind: "markdown"; text: string }
  | { kind: "code"; text: string; language: string }
  /** Shown as plain text. */
  | { kind: "plain"; text: string };

/**
 * Measured in Chromium on a slow machine: a piece at its limits renders in under 0.3 s, and an
 * ordinary one of 2,000 characters in 5 ms.
 */
export const bounds = {
  /** Characters of one piece. */
  piece: 20_000,
  /** Neighbouring pieces are merged up to this many characters. */
  small: 1_500,
  /** Characters of one piece that may be markup: they determine the cost of parsing. */
  markup: 1_500,
  /** Nested quotes and lists. */
  nesting: 16,
  /** Columns before a list marker, which determine nesting over several lines. */
  indent: 64,
  /** Markdown characters of all pieces of an answer, including the definitions that they use. */
  all: 200_000,
  /** Markup characters of all pieces of an answer. */
  allMarkup: 20_000,
  /** Definitions of links and footnotes in an answer. */
  definitions: 1_000,
  /** Definitions that one piece may use. */
  used: 50,
} as const;

/** A top-level block, with the links and notes that it may refer to. */
interface Block {
  pieces: readonly Cut[];
  /** Its end in the text; NaN if unknown. */
  end: number;
  definition?: { label: string; raw: string };
  space: boolean;
}

type Cut = Piece & { refs?: readonly string[] };

/** The state of a growing text: its blocks so far. */
export interface Cutting {
  text: string;
  blocks: readonly Block[];
}

export const uncut: Cutting = { text: "", blocks: [] };

/** Cuts a text. If it has only grown since the last call, only its last block is parsed again. */
export function cut(text: string, before: Cutting = uncut): Cutting {
  if (text === before.text) return before;
  const kept = text.startsWith(before.text) ? stable(before.blocks) : [];
  const from = kept.at(-1)?.end ?? 0;
  return { text, blocks: [...kept, ...blocksOf(text.slice(from), from)] };
}

/** The blocks that further text cannot change. A list may continue after a blank line. */
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
    // Nested deeper than the lexer's stack allows, in a way we did not foresee.
    return [{ pieces: [plain(text)], end: offset + text.length, space: false }];
  }
  if (end !== offset + drawn) for (const b of blocks) b.end = Number.NaN;
  if (drawn < text.length) blocks.push({ pieces: [plain(text.slice(drawn))], end: offset + text.length, space: false });
  return blocks;
}

/**
 * How much of the text the lexer may get: up to the first paragraph that is nested too deeply,
 * and within the limit.
 */
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

/** The pieces of a cut text, each with the definitions that it uses. Any piece may use them, but few do. */
export function piecesOf({ blocks }: Cutting): Piece[] {
  const definitions = new Map<string, Definition>();
  for (const { definition: d } of blocks) {
    if (!d || definitions.has(d.label) || definitions.size >= bounds.definitions) continue;
    // Notes may refer to each other in a circle.
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

/** Merges small neighbouring pieces, because each piece has a fixed cost. */
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
