// One session being watched: its log is followed, folded, and passed on no faster than a screen
// can show it.

import { follow, type Connection, type Frame } from "../api/stream.ts";
import type { Client } from "../api/client.ts";
import { advance, precede, type SessionView } from "./live.ts";

export interface Watch {
  readonly id: string;
  /** Reads the turns before the first one, if any. */
  older(): Promise<void>;
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

/** Follows the session and calls changed after each change of the view or the connection. */
export function watch(client: Client, id: string, begin: SessionView, changed: (w: Watch) => void, schedule: Schedule = perFrame): Watch {
  let view = begin;
  let reading: Promise<void> | undefined;
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
    const { after } = await client.window(id, transcript.turns?.[0]?.id);
    const events = await client.events(id, Math.min(after, from), from);
    if (!open) return;
    view = precede(view, Math.min(after, from), events);
    changed(self);
  };
  const following = follow(client, id, begin.from, {
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
    older: () => (reading ??= older().finally(() => (reading = undefined))),
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
