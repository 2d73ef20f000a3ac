// One session being watched: its log is followed, folded, and passed on no faster than a screen
// can show it.

import { follow, type Connection, type Frame } from "../api/stream.ts";
import type { Client } from "../api/client.ts";
import { advance, fill, precede, type SessionView } from "./live.ts";

export interface Watch {
  readonly id: string;
  /** Reads the turns before the first one, if any. */
  older(): Promise<void>;
  /** Reads earlier steps of a turn whose first steps are not read. */
  earlier(turn: string): Promise<void>;
  readonly view: SessionView;
  readonly connection: Connection;
  retry(): void;
  pause(): void;
  resume(): void;
  close(): void;
}

/** Runs f soon, at most once per frame; in a hidden tab, which has no frames, ten times a second. */
export type Schedule = (f: () => void) => void;

export const perFrame: Schedule = (f) => {
  if (document.hidden) {
    setTimeout(f, 100);
    return;
  }
  let ran = false;
  const once = () => {
    if (!ran) f();
    ran = true;
  };
  requestAnimationFrame(once);
  setTimeout(once, 100); // the tab may be hidden before the next frame
};

/**
 * Follows the session and calls changed after each change of the view or the connection. With most, no more events than
 * about so many are read at once, and of a turn that has more the newest.
 */
export function watch(client: Client, id: string, begin: SessionView, changed: (w: Watch) => void, schedule: Schedule = perFrame, most?: number): Watch {
  let view = begin;
  let reading: Promise<void> | undefined;
  let goingBack: Promise<void> | undefined;
  let connection: Connection = { state: "connecting" };
  let waiting: Frame[] = [];
  let open = true;

  const flush = () => {
    if (!open || waiting.length === 0) return;
    const frames = waiting;
    waiting = [];
    const next = advance(view, frames);
    if (next === view) return;
    view = next;
    changed(self);
  };
  const older = async () => {
    const { from, transcript } = view;
    if (from === 0) return;
    const w = await client.window(id, transcript.turns?.[0]?.id, most);
    const begins = w.after <= from ? w : { ...w, after: from, begun: [] };
    const events = await client.events(id, begins.after, from);
    if (!open) return;
    view = precede(view, begins, events);
    changed(self);
  };
  const earlier = async (turn: string) => {
    const hole = view.holes.find((h) => h.begun.some((e) => e.turn === turn));
    if (!hole) return;
    const after = Math.max(hole.after, hole.to - (most ?? hole.to));
    const events = await client.events(id, after, hole.to);
    if (!open) return;
    view = fill(view, hole, after, events);
    changed(self);
  };
  /** One after another, since each begins where the one before ended. */
  const read = (more: () => Promise<void>) => (reading = (reading ?? Promise.resolve()).catch(() => undefined).then(more));
  const following = follow(client, id, begin.transcript.seq, {
    frames(frames) {
      if (waiting.length === 0) schedule(flush);
      waiting.push(...frames);
    },
    connection(now) {
      connection = now;
      queueMicrotask(() => open && changed(self));
    },
  });
  const self: Watch = {
    id,
    older: () => (goingBack ??= read(older).finally(() => (goingBack = undefined))),
    earlier: (turn) => read(() => earlier(turn)),
    get view() {
      return view;
    },
    get connection() {
      return connection;
    },
    retry: following.retry,
    pause: following.pause,
    resume: following.resume,
    close() {
      open = false;
      following.close();
    },
  };
  return self;
}
