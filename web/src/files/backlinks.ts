// What is shown of the notes that link to one.

import type { Backlink } from "../api/workspaces.ts";
import { oneLine } from "../ui/tame.ts";
import { wikisIn } from "./links.ts";

/** Lines shown of one note. */
const mostLines = 3;

export interface LinkingNote {
  path: string;
  lines: Backlink[];
}

/** The notes that link, in the order in which they come, each with its first lines. */
export function linksByNote(links: readonly Backlink[]): LinkingNote[] {
  const notes = new Map<string, LinkingNote>();
  for (const l of links) {
    const note = notes.get(l.path) ?? { path: l.path, lines: [] };
    notes.set(l.path, note);
    if (note.lines.length < mostLines) note.lines.push(l);
  }
  return [...notes.values()];
}

/** A line as it reads: without the marks of lists and headings, and with the words of its links. */
export function linkedText(line: string): string {
  let text = line;
  for (const w of wikisIn(line).reverse()) text = text.slice(0, w.from) + w.words + text.slice(w.to);
  return oneLine(text.replace(/!?\[([^[\]]*)\]\((?:<[^<>]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+"[^"]*")?\)/g, "$1").replace(/^(?:[-*+]|\d+[.)]|#{1,6}|>)\s+(?:\[[ xX]\]\s+)?/, ""), 200);
}
