// Follows the changes of a lake, whoever makes them: by its feed, from a cursor on.

import type { LakeFeed } from "../api/lakes.ts";

/** How often the feed is read while the page can be seen, in ms. A stream would keep one of the few connections that the tabs share. */
export const lookEvery = 3000;

export interface LakeFollowing {
  /** Reads the feed at once: something may have changed. */
  look(): void;
  stop(): void;
}

/**
 * Calls changed with the paths of what is changed from now on. It is called twice for a change, the second time at the next
 * look, because the index that the lists are made of may be a moment behind the commit. What cannot be read now is read later.
 */
export function followLake(read: (cursor: string, signal: AbortSignal) => Promise<LakeFeed>, changed: (paths: readonly string[]) => void, seen: () => boolean = () => !document.hidden): LakeFollowing {
  const stopped = new AbortController();
  let cursor: string | undefined;
  let reading = false;
  let asked = false; // while a page was read
  let before: readonly string[] | undefined;

  const page = async (paths: Set<string>): Promise<boolean> => {
    const from = cursor;
    const got = await read(from ?? "now", stopped.signal);
    cursor = got.cursor;
    if (from === undefined) return false;
    for (const c of got.changes ?? []) for (const t of c.changed ?? []) paths.add(t.path);
    const some = (got.changes ?? []).length > 0 || (got.reset ?? false);
    return got.more && got.cursor !== from ? (await page(paths)) || some : some;
  };
  const look = async (): Promise<void> => {
    asked = reading;
    if (reading || stopped.signal.aborted) return;
    reading = true;
    const again = before;
    const paths = new Set<string>();
    let some = false;
    try {
      some = await page(paths);
    } catch {
      some = paths.size > 0; // the next look goes on behind what was read
    } finally {
      reading = false;
    }
    if (stopped.signal.aborted) return;
    before = some ? [...paths] : undefined;
    if (some || again) changed([...new Set([...paths, ...(again ?? [])])]);
    if (asked) void look();
  };
  const timer = setInterval(() => {
    if (seen()) void look();
  }, lookEvery);
  void look();
  return {
    look: () => void look(),
    stop() {
      clearInterval(timer);
      stopped.abort();
    },
  };
}
