// Follows a session: everything after a number, then live events, as long as somebody is
// watching. After a disconnection it asks again from the last event seen, so the reader gets
// each event once and in order, whatever the network does.

import { ApiError, errorOf, infoOf, toApiError, type Client } from "./client.ts";
import { SSEParser, type SSEFrame } from "./sse.ts";
import type { Delta, Event } from "./types.gen.ts";

export type Frame =
  | { kind: "event"; event: Event }
  /** A fragment of a call's text. */
  | { kind: "delta"; delta: Delta }
  /** The whole text of a call so far: it replaces the reader's text. */
  | { kind: "partial"; delta: Delta };

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  /** Disconnected; the next attempt is at the given time. */
  | { state: "waiting"; retryAt: number }
  | { state: "paused" }
  /** Rejected permanently. */
  | { state: "refused"; error: ApiError };

export interface Sink {
  /** Frames in order; frames of one network chunk come together. */
  frames(frames: Frame[]): void;
  connection(now: Connection): void;
}

export interface Following {
  /** Tries again at once if waiting, for example when the network is back. */
  retry(): void;
  /** Closes the connection and keeps the position. A browser allows few connections to one host. */
  pause(): void;
  resume(): void;
  close(): void;
}

const firstWait = 300;
const longestWait = 15_000;
/** Three heartbeats of the server (15 s each): a connection silent for longer is dead, even without an error. */
const silence = 45_000;

export function follow(client: Client, session: string, after: number, sink: Sink, random: () => number = Math.random): Following {
  let cursor = after;
  let failures = 0;
  let gapAt = 0; // the cursor at which a gap was seen, and asked about again
  let abort: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let open = true;
  let paused = false;

  const connect = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const here = new AbortController();
    abort = here;
    sink.connection({ state: "connecting" });
    let asked = 0; // ms that the server asked us to wait
    try {
      asked = await read(here);
    } catch (cause) {
      if (!open || paused || abort !== here) return;
      const error = toApiError(cause);
      if (isFinal(error)) {
        open = false;
        sink.connection({ state: "refused", error });
        return;
      }
      asked = error.retryAfterMs;
    }
    if (!open || paused || abort !== here) return;
    abort = undefined;
    // Full jitter, so that the clients of a restarted server do not reconnect all at once.
    const span = Math.min(longestWait, firstWait * 2 ** failures++);
    const wait = Math.max(asked, firstWait / 2 + span * random());
    sink.connection({ state: "waiting", retryAt: Date.now() + wait });
    timer = setTimeout(() => void connect(), wait);
  };

  const read = async (here: AbortController): Promise<number> => {
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => here.abort("silence"), silence);
    };
    alive();
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (cursor > 0) headers["Last-Event-ID"] = String(cursor);
      const response = await client.fetch(`${client.base}v1/sessions/${encodeURIComponent(session)}/events?after=${cursor}`, {
        headers,
        signal: here.signal,
        cache: "no-store",
        credentials: "same-origin",
      });
      if (!response.ok) throw await errorOf(response);
      if (!response.body) return 0;
      sink.connection({ state: "live" });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new SSEParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return 0;
        alive();
        if (here.signal.aborted) return 0;
        const frames: Frame[] = [];
        try {
          take(parser.push(value), frames);
        } finally {
          if (frames.length > 0) sink.frames(frames);
        }
        if (frames.length > 0) failures = 0;
      }
    } finally {
      clearTimeout(quiet);
      here.abort("done"); // lets go of the body, whatever ended the reading
    }
  };

  /**
   * Converts frames of the wire to frames of the log and skips those already seen. Frames before
   * a bad one are kept.
   */
  const take = (raw: SSEFrame[], frames: Frame[]): void => {
    for (const frame of raw) {
      switch (frame.event) {
        case "model.delta":
        case "model.partial":
          frames.push({
            kind: frame.event === "model.delta" ? "delta" : "partial",
            delta: JSON.parse(frame.data) as Delta,
          });
          break;
        case "error": // the last frame
          throw new ApiError({ code: "internal", message: "The stream ended with an error.", ...infoOf(JSON.parse(frame.data)) });
        default: {
          // An unknown kind of delta; or a reset, which says that fragments were dropped for a
          // slow reader: the partials that follow replace them.
          if (frame.id === undefined) break;
          const event = JSON.parse(frame.data) as Event;
          if (event.seq <= cursor) break;
          if (event.seq > cursor + 1 && gapAt !== cursor) {
            gapAt = cursor;
            throw new Error(`event ${cursor + 1} is missing`);
          }
          cursor = event.seq;
          frames.push({ kind: "event", event });
        }
      }
    }
  };

  const again = () => {
    if (!open || paused || abort) return;
    void connect();
  };
  void connect();
  return {
    retry() {
      failures = 0;
      again();
    },
    pause() {
      if (!open || paused) return;
      paused = true;
      clearTimeout(timer);
      abort?.abort("paused");
      abort = undefined;
      sink.connection({ state: "paused" });
    },
    resume() {
      if (!paused) return;
      paused = false;
      failures = 0;
      again();
    },
    close() {
      open = false;
      clearTimeout(timer);
      abort?.abort("closed");
    },
  };
}

/** Whether asking again would get the same answer. */
function isFinal(error: ApiError): boolean {
  if (["not_found", "unauthenticated", "forbidden", "condensed", "invalid"].includes(error.code)) return true;
  return error.status >= 400 && error.status < 500 && error.status !== 408 && error.status !== 425 && error.status !== 429;
}
