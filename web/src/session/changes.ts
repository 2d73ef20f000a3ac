// What a turn changed in the files of its workspace, from its log.

import type { Event, FileSaved } from "../api/types.gen.ts";

/** A file that a turn changed, with all changes of it, the earliest first. */
export interface Changed {
  path: string;
  /** What became of it over the whole turn; undone: it is as it was before. */
  what: "created" | "changed" | "deleted" | "undone";
  added: number;
  removed: number;
  saved: readonly FileSaved[];
}

/** The files that a turn changed, in the order in which it first changed them. */
export function changesOf(events: readonly Event[]): Changed[] {
  const files = new Map<string, FileSaved[]>();
  for (const e of events) {
    if (e.type !== "files.saved" || (e.v ?? 0) > 0 || !e.data) continue;
    for (const f of e.data.files ?? []) files.set(f.path, [...(files.get(f.path) ?? []), f]);
  }
  return [...files.values()].map(together);
}

/** A single change of a file. */
export const changed = (saved: FileSaved): Changed => together([saved]);

const together = (saved: readonly FileSaved[]): Changed => ({ path: saved[0]?.path ?? "", what: whatOf(saved), added: sum(saved, "added"), removed: sum(saved, "removed"), saved });

function whatOf(saved: readonly FileSaved[]): Changed["what"] {
  const [before, after] = [saved[0]?.before ?? "", saved.at(-1)?.after ?? ""];
  if (before === after) return saved.length > 1 ? "undone" : "changed";
  return before === "" ? "created" : after === "" ? "deleted" : "changed";
}

const sum = (saved: readonly FileSaved[], of: "added" | "removed"): number => saved.reduce((n, f) => n + (f[of] ?? 0), 0);
