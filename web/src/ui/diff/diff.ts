// Changes of texts as rows of lines: from a unified diff, or from the texts before and after. What they contain is foreign,
// and what comparing them costs is limited.

import { diffWordsWithSpace, parsePatch, structuredPatch, type StructuredPatchHunk } from "diff";

import { tameCode } from "../tame.ts";

/** What comparing texts may cost. */
export const bounds = {
  /** Characters of a diff, and of what differs in a pair of texts. */
  text: 400_000,
  /** Lines that differ. Beyond it everything counts as replaced. */
  edits: 3_000,
  /** How long comparing may take, in ms. */
  time: 300,
  /** Characters of a line whose words are compared. */
  line: 1_000,
  /** Pairs of lines whose words are compared. */
  pairs: 200,
} as const;

/** Unchanged lines around a change. */
const context = 3;

export interface Line {
  kind: "same" | "added" | "removed";
  /** Its number in the text before and after. */
  before?: number;
  after?: number;
  text: string;
  /** The parts that differ from the line in its place, as positions in the text. */
  marks?: readonly (readonly [from: number, to: number])[];
  /** The text ends with it, without a line break. */
  last?: boolean;
}

export interface Hunk {
  /** The lines of the text after the change that are left out before it. */
  skipped: number;
  lines: readonly Line[];
}

export interface Diff {
  hunks: readonly Hunk[];
  added: number;
  removed: number;
}

/** The difference of parts of texts, whose place is not known: its lines have no numbers. */
export function compareParts(before: string, after: string): Diff {
  const bare = ({ before: _before, after: _after, last: _last, ...l }: Line): Line => l;
  const diff = compare(before, after);
  return { ...diff, hunks: diff.hunks.map((h) => ({ ...h, lines: h.lines.map(bare) })) };
}

/** Reads a unified diff of one file; undefined if it is none. */
export function readPatch(patch: string): Diff | undefined {
  if (patch.length > bounds.text) return undefined;
  try {
    const [file] = parsePatch(patch);
    return file && file.hunks.length > 0 ? diffOf(file.hunks) : undefined;
  } catch {
    return undefined;
  }
}

/** A file of a unified diff; no diff: nothing in its lines differs. */
export interface Patched {
  path: string;
  what: "added" | "removed" | "changed";
  diff: Diff | undefined;
}

/** Reads a unified diff of several files; undefined if it is none, or too large. */
export function readPatches(patch: string): Patched[] | undefined {
  if (patch.length > bounds.text) return undefined;
  const named = (name: string | undefined): string => (name ?? "").replace(/^[ab]\//, "");
  try {
    return parsePatch(patch)
      .filter((f) => f.oldFileName !== undefined || f.newFileName !== undefined)
      .map((f) => ({
        path: named(f.newFileName === "/dev/null" ? f.oldFileName : f.newFileName),
        what: f.oldFileName === "/dev/null" ? "added" : f.newFileName === "/dev/null" ? "removed" : "changed",
        diff: f.hunks.length > 0 ? diffOf(f.hunks) : undefined,
      }));
  } catch {
    return undefined;
  }
}

/** Compares two texts. What differs too much is shown as replaced. */
export function compare(before: string, after: string): Diff {
  if (before === after) return { hunks: [], added: 0, removed: 0 };
  const { start, end } = alike(before, after);
  const [a, b] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const skipped = linesIn(before.slice(0, start));
  const patch = a.length + b.length > bounds.text ? undefined : structuredPatch("a", "b", a, b, "", "", { context, maxEditLength: bounds.edits, timeout: bounds.time });
  const hunks = patch?.hunks ?? replaced(a, b);
  return diffOf(hunks.map((h) => ({ ...h, oldStart: h.oldStart + skipped, newStart: h.newStart + skipped })), end > 0);
}

/** The characters that two texts begin and end with alike, in whole lines, except those shown around the change. */
function alike(a: string, b: string): { start: number; end: number } {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  for (let i = 0; i <= context && start >= 0; i++) start = start === 0 ? -1 : a.lastIndexOf("\n", start - 1);
  const tail = a.slice(a.length - end);
  let keep = 0;
  for (let i = 0; i <= context && keep < tail.length; i++) keep = (tail.indexOf("\n", keep) + 1) || tail.length;
  return { start: start + 1, end: end - keep };
}

const linesIn = (text: string): number => text.split("\n").length - 1;

const linesOf = (text: string): string[] => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

function replaced(a: string, b: string): StructuredPatchHunk[] {
  const [old, now] = [linesOf(a), linesOf(b)];
  return [{ oldStart: 1, oldLines: old.length, newStart: 1, newLines: now.length, lines: [...old.map((l) => `-${l}`), ...now.map((l) => `+${l}`)] }];
}

/** goesOn: the texts go on after the last hunk, whatever it says of their end. */
function diffOf(hunks: readonly StructuredPatchHunk[], goesOn = false): Diff {
  const diff = { hunks: [] as Hunk[], added: 0, removed: 0 };
  let seen = 1;
  const budget = { pairs: bounds.pairs };
  for (const h of hunks) {
    const lines: Line[] = [];
    let before = h.oldStart;
    let after = h.newStart;
    for (const raw of h.lines) {
      const text = raw.slice(1);
      switch (raw[0]) {
        case "+":
          lines.push({ kind: "added", after: after++, text });
          diff.added++;
          break;
        case "-":
          lines.push({ kind: "removed", before: before++, text });
          diff.removed++;
          break;
        case "\\": {
          const last = lines.at(-1);
          if (last && !goesOn) lines[lines.length - 1] = { ...last, last: true };
          break;
        }
        default:
          lines.push({ kind: "same", before: before++, after: after++, text });
      }
    }
    diff.hunks.push({ skipped: Math.max(0, h.newStart - seen), lines: marked(lines.map(shown), budget) });
    seen = after;
  }
  return diff;
}

/** A line as it is shown: it looks like what it says. */
function shown(l: Line): Line {
  const text = tameCode(l.text.replace(/\r$/, "␍"));
  return text === l.text ? l : { ...l, text };
}

/** Marks what differs between removed lines and the added ones in their place. A line end is shown only where it changed. */
function marked(lines: Line[], budget: { pairs: number }): Line[] {
  const all = [...lines];
  for (let at = 0; at < all.length; ) {
    const from = at;
    while (all[at]?.kind === "removed") at++;
    const middle = at;
    while (all[at]?.kind === "added") at++;
    const pairs = Math.min(middle - from, at - middle);
    for (let i = 0; i < pairs; i++) pair(all, from + i, middle + i, budget);
    if (at === from) at++;
  }
  return all.map((l) => (l.text.endsWith("␍") && !l.marks?.some(([, to]) => to === l.text.length) ? { ...l, text: l.text.slice(0, -1) } : l));
}

function pair(all: Line[], removed: number, added: number, budget: { pairs: number }): void {
  const [a, b] = [all[removed], all[added]];
  if (!a || !b || a.text.length > bounds.line || b.text.length > bounds.line || budget.pairs-- <= 0) return;
  const changes = diffWordsWithSpace(a.text, b.text, { maxEditLength: 200, timeout: 20 });
  if (!changes) return;
  const marks = { a: [] as [number, number][], b: [] as [number, number][] };
  let [i, j, same] = [0, 0, 0];
  for (const c of changes) {
    if (c.removed) marks.a.push([i, (i += c.value.length)]);
    else if (c.added) marks.b.push([j, (j += c.value.length)]);
    else {
      same += c.value.trim().length;
      i += c.value.length;
      j += c.value.length;
    }
  }
  // Lines that have little in common are two lines, not one that changed.
  if (same * 3 < Math.max(a.text.length, b.text.length)) return;
  all[removed] = { ...a, marks: marks.a };
  all[added] = { ...b, marks: marks.b };
}

/** A row of the view with both texts: what was in a place, and what is there now. */
export interface Row {
  left: Line | undefined;
  right: Line | undefined;
}

/** The lines of a hunk, beside each other. */
export function beside(lines: readonly Line[]): Row[] {
  const rows: Row[] = [];
  for (let at = 0; at < lines.length; ) {
    const l = lines[at];
    if (l?.kind === "same") {
      rows.push({ left: l, right: l });
      at++;
      continue;
    }
    const from = at;
    while (lines[at]?.kind === "removed") at++;
    const middle = at;
    while (lines[at]?.kind === "added") at++;
    for (let i = 0; i < Math.max(middle - from, at - middle); i++) {
      rows.push({ left: from + i < middle ? lines[from + i] : undefined, right: middle + i < at ? lines[middle + i] : undefined });
    }
  }
  return rows;
}

/** A line in its parts: those that changed, and those that did not. */
export function partsOf({ text, marks = [] }: Pick<Line, "text" | "marks">): { text: string; changed: boolean }[] {
  const parts: { text: string; changed: boolean }[] = [];
  let at = 0;
  for (const [from, to] of marks) {
    if (from > at) parts.push({ text: text.slice(at, from), changed: false });
    parts.push({ text: text.slice(from, to), changed: true });
    at = to;
  }
  if (at < text.length) parts.push({ text: text.slice(at), changed: false });
  return parts;
}
