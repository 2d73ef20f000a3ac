// The tree of files as rows, and how keys move in it (the ARIA pattern of a tree).

import type { FileEntry } from "../api/workspaces.ts";

/** What is known of a folder. */
export interface Folder {
  state: "reading" | "read" | "failed";
  entries: readonly FileEntry[];
  /** There are more entries, which are read on request. */
  more: boolean;
  error?: string;
}

export type Row =
  | { kind: "entry"; path: string; name: string; depth: number; folder: boolean; open: boolean; entry: FileEntry; size: number; position: number }
  /** What there is in place of entries: a folder that is read, that is empty, that could not be read, or that goes on. */
  | { kind: "note"; path: string; depth: number; note: "reading" | "empty" | "failed" | "more"; text: string };

export const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path: string): string => (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");

const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Folders first, then by name as people sort. */
const sorted = (entries: readonly FileEntry[]): FileEntry[] =>
  [...entries].sort((a, b) => Number(b.kind === "folder") - Number(a.kind === "folder") || order.compare(nameOf(a.path), nameOf(b.path)) || (a.path < b.path ? -1 : 1));

/** The rows that are visible: what is in the folders that are open. */
export function rowsOf(folders: ReadonlyMap<string, Folder>, open: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const visit = (path: string, depth: number): void => {
    const folder = folders.get(path);
    const note = (note: "reading" | "empty" | "failed" | "more", text: string) => rows.push({ kind: "note", path, depth, note, text });
    const entries = sorted(folder?.entries ?? []);
    entries.forEach((entry, i) => {
      const folder = entry.kind === "folder";
      const isOpen = folder && open.has(entry.path);
      rows.push({ kind: "entry", path: entry.path, name: nameOf(entry.path), depth, folder, open: isOpen, entry, size: entries.length, position: i + 1 });
      if (isOpen) visit(entry.path, depth + 1);
    });
    if (folder?.state === "failed") note("failed", folder.error ?? "");
    else if (!folder || (folder.state === "reading" && entries.length === 0)) note("reading", "");
    else if (folder.more) note("more", "");
    else if (entries.length === 0) note("empty", "");
  };
  visit("", 0);
  return rows;
}

export type Entry = Extract<Row, { kind: "entry" }>;

/** What a key does at a row: the row that gets the focus, and a folder that opens or closes. */
export interface Step {
  focus?: string;
  open?: string;
  close?: string;
}

/** The step of a key; undefined if it means nothing here. */
export function stepOf(key: string, rows: readonly Row[], at: string): Step | undefined {
  const list = rows.filter((r): r is Entry => r.kind === "entry");
  const i = list.findIndex((r) => r.path === at);
  const here = list[i];
  const to = (n: number): Step => {
    const row = list[Math.max(0, Math.min(list.length - 1, n))];
    return row ? { focus: row.path } : {};
  };
  switch (key) {
    case "ArrowDown":
      return to(i + 1);
    case "ArrowUp":
      return to(i < 0 ? 0 : i - 1);
    case "Home":
      return to(0);
    case "End":
      return to(list.length - 1);
    case "PageDown":
      return to(i + 10);
    case "PageUp":
      return to(i - 10);
    case "ArrowRight":
      if (!here?.folder) return {};
      if (!here.open) return { open: here.path };
      return list[i + 1]?.depth === here.depth + 1 ? to(i + 1) : {};
    case "ArrowLeft": {
      if (!here) return {};
      if (here.folder && here.open) return { close: here.path };
      const parent = folderOf(here.path);
      return parent === "" ? {} : { focus: parent };
    }
    default:
      return undefined;
  }
}

/** The row that typed letters lead to: the next whose name begins with them. */
export function typedTo(typed: string, rows: readonly Row[], at: string): string | undefined {
  const list = rows.filter((r): r is Entry => r.kind === "entry");
  const i = list.findIndex((r) => r.path === at);
  const begins = (r: Entry) => r.name.toLocaleLowerCase().startsWith(typed.toLocaleLowerCase());
  // One letter goes on from row to row, more letters may still mean this one.
  const from = typed.length > 1 ? i : i + 1;
  return [...list.slice(Math.max(0, from)), ...list.slice(0, Math.max(0, from))].find(begins)?.path;
}

/** The folders that a file is in, the outermost first. */
export function foldersOf(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join("/"));
}

/** Files whose path has all words of a query, the best first: at the beginning of the name, in the name, in the path. */
export function matching(query: string, all: readonly string[], most: number): string[] {
  const words = query.toLowerCase().split(/\s+/).filter((w) => w !== "");
  if (words.length === 0) return [];
  const rated: { path: string; rank: number }[] = [];
  for (const path of all) {
    const low = path.toLowerCase();
    if (!words.every((w) => low.includes(w))) continue;
    const name = nameOf(low);
    rated.push({ path, rank: words.every((w) => name.includes(w)) ? (name.startsWith(words[0] ?? "") ? 0 : 1) : 2 });
  }
  return rated
    .sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || order.compare(a.path, b.path))
    .slice(0, most)
    .map((r) => r.path);
}
