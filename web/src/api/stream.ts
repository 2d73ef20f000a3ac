// Follows a session: everything after a number, then live events, as long as somebody is
// watching. After a disconnection it asks again from the last event seen, so the reader gets
// each event once and in order, whatever the network does. While other tabs hold all the slots
// for streams, it reads pages of the log from the same number on. They have the same events,
// later and without text in flight.

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
export const silence = 45_000;
/** Without a slot, the log is read this often. */
const pollEvery = 1500;

export function follow(client: Client, session: string, after: number, sink: Sink, random: () => number = Math.random): Following {
  let cursor = after;
  let failures = 0;
  let gapAt = 0; // the cursor at which a gap was seen, and asked about again
  let abort: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let open = true;
  let paused = false;
  let live = false; // as the sink was told

  const connect = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const here = new AbortController();
    abort = here;
    const release = client.slots.take("session", () => {
      here.abort("slot lost");
      if (abort === here) void connect(); // to poll
    });
    if (release) here.signal.addEventListener("abort", release);
    if (!live) sink.connection({ state: "connecting" });
    let asked = 0; // ms that the server asked us to wait
    try {
      const next = await (release ? stream(here) : poll(here));
      if (next !== undefined && abort === here) {
        failures = 0;
        abort = undefined;
        timer = setTimeout(() => void connect(), next);
        return;
      }
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
    live = false;
    // Full jitter, so that the clients of a restarted server do not reconnect all at once.
    const span = Math.min(longestWait, firstWait * 2 ** failures++);
    const wait = Math.max(asked, firstWait / 2 + span * random());
    sink.connection({ state: "waiting", retryAt: Date.now() + wait });
    timer = setTimeout(() => void connect(), wait);
  };

  /** Follows the live end until the connection is cut. */
  const stream = (here: AbortController): Promise<undefined> =>
    read(here, `after=${cursor}`, streamOrError, async (body, alive) => {
      const parser = new SSEParser();
      for (;;) {
        const { done, value } = await body.read();
        if (done || here.signal.aborted) return undefined;
        alive();
        const frames: Frame[] = [];
        try {
          take(parser.push(value), frames);
        } finally {
          if (frames.length > 0) sink.frames(frames);
        }
        if (frames.length > 0) failures = 0;
      }
    });

  /** Reads one page of the log. Returns when to read the next, in ms. */
  const poll = (here: AbortController): Promise<number | undefined> =>
    read(here, `format=json&limit=1000&after=${cursor}`, "application/json", async (body) => {
      let text = "";
      for (let part = await body.read(); !part.done; part = await body.read()) text += part.value;
      if (here.signal.aborted) return undefined;
      const page = JSON.parse(text) as { events: Event[]; more: boolean };
      const frames: Frame[] = [];
      try {
        for (const event of page.events) add(event, frames);
      } finally {
        if (frames.length > 0) sink.frames(frames);
      }
      return page.more ? 0 : pollEvery;
    });

  /** Makes a request and reads its answer. A silent connection is cut. */
  const read = async <T>(
    here: AbortController,
    query: string,
    accept: string,
    answer: (body: ReadableStreamDefaultReader<string>, alive: () => void) => Promise<T>,
  ): Promise<T | undefined> => {
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => here.abort("silence"), silence);
    };
    alive();
    try {
      const response = await client.fetch(`${client.base}v1/sessions/${encodeURIComponent(session)}/events?${query}`, {
        headers: { Accept: accept },
        signal: here.signal,
        cache: "no-store",
        credentials: "same-origin",
      });
      if (!response.ok) throw await errorOf(response);
      if (!response.body) return undefined;
      if (!live) sink.connection({ state: "live" });
      live = true;
      return await answer(response.body.pipeThrough(new TextDecoderStream()).getReader(), alive);
    } finally {
      clearTimeout(quiet);
      here.abort("done"); // lets go of the body and of the slot, whatever ended the reading
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
        case "tool.progress":
          frames.push({
            kind: frame.event === "model.partial" ? "partial" : "delta",
            delta: JSON.parse(frame.data) as Delta,
          });
          break;
        case "error": // the last frame
          throw new ApiError({ code: "internal", message: "The stream ended with an error.", ...infoOf(JSON.parse(frame.data)) });
        default: {
          // An unknown kind of delta; or a reset, which says that fragments were dropped for a
          // slow reader: the partials that follow replace them.
          if (frame.id === undefined) break;
          add(JSON.parse(frame.data) as Event, frames);
        }
      }
    }
  };

  const add = (event: Event, frames: Frame[]): void => {
    if (event.seq <= cursor) return;
    if (event.seq > cursor + 1 && gapAt !== cursor) {
      gapAt = cursor;
      throw new Error(`event ${cursor + 1} is missing`);
    }
    cursor = event.seq;
    frames.push({ kind: "event", event });
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
      live = false;
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

/** What a request for a stream accepts: a server whose store is away lets those wait who take no error. */
export const streamOrError = "text/event-stream, application/json";

/** Whether asking again would get the same answer. */
export function isFinal(error: ApiError): boolean {
  if (["not_found", "unauthenticated", "forbidden", "condensed", "invalid"].includes(error.code)) return true;
  return error.status >= 400 && error.status < 500 && error.status !== 408 && error.status !== 425 && error.status !== 429;
}
