// The WebSocket of the chat: one JSON object a frame. A socket is opened when there is something to say, because the
// server closes one on which nobody has said anything.

import { own } from "./own.ts";

export type Outgoing =
  | { type: "chat"; message: string; token: string; orgId?: string; apiBaseUrl?: string; sessionId?: string; live: true }
  | { type: "reset"; sessionId: string };

export type Incoming =
  | { type: "session.id"; sessionId: string }
  | { type: "turn.started" }
  | { type: "agent.text"; text: string; status: string }
  | { type: "agent.action"; action: string; label: string; status: string }
  | { type: "turn.completed"; text: string }
  | { type: "error"; message: string };

export type OpenSocket = (url: string) => WebSocket;

export interface Line {
  send(frame: Outgoing): void;
  close(): void;
}

export interface Heard {
  frame(frame: Incoming): void;
  /** The connection has ended; nothing comes after it. */
  lost(): void;
}

/** A connection that is not there after this long is given up, in ms. */
const patience = 15_000;

/** Connects. Rejects if there is no connection; after that, heard.lost says when it ends. */
export function connect(open: OpenSocket, url: string, heard: Heard): Promise<Line> {
  return new Promise((connected, failed) => {
    let socket: WebSocket;
    try {
      socket = open(url);
    } catch (cause) {
      failed(cause as Error);
      return;
    }
    let up = false;
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      clearTimeout(late);
      if (up) heard.lost();
      else failed(new Error("The server cannot be reached."));
    };
    const late = setTimeout(() => {
      end();
      socket.close();
    }, patience);
    socket.onopen = () => {
      if (over) return;
      clearTimeout(late);
      up = true;
      connected({
        send: (frame) => socket.send(JSON.stringify(frame)),
        close: () => {
          over = true;
          socket.close();
        },
      });
    };
    socket.onmessage = ({ data }: MessageEvent) => {
      const frame = over ? undefined : frameOf(data);
      if (frame) heard.frame(frame);
    };
    socket.onerror = end;
    socket.onclose = end;
  });
}

/** The page's one connection, which stays open between messages. Who speaks on it hears what comes. */
export class Phone {
  readonly #open: OpenSocket;
  readonly #url: () => string;
  #line: Line | undefined;
  #heard: Heard | undefined;

  constructor(open: OpenSocket, url: () => string) {
    this.#open = open;
    this.#url = url;
  }

  /** The connection, made if there is none. From now on heard is told what comes, until somebody else is. */
  async connected(heard: Heard): Promise<Line> {
    this.#heard = heard;
    if (this.#line) return this.#line;
    let lost = false;
    const line = await connect(this.#open, this.#url(), {
      frame: (f) => {
        if (this.#line === line) this.#heard?.frame(f);
      },
      lost: () => {
        lost = true;
        if (this.#line !== line) return;
        this.#line = undefined;
        this.#heard?.lost();
      },
    });
    if (lost) throw new Error("The connection was lost.");
    const other = this.#line as Line | undefined; // two may have asked for one at once
    if (other) {
      line.close();
      return other;
    }
    return (this.#line = line);
  }

  /** Tells it nothing more. */
  hangUp(heard: Heard): void {
    if (this.#heard === heard) this.#heard = undefined;
  }

  /** Ends a session that was used on this connection. */
  reset(sessionId: string): void {
    this.#line?.send({ type: "reset", sessionId });
  }

  close(): void {
    this.#line?.close();
    this.#line = undefined;
    this.#heard = undefined;
  }
}

/** A frame that was understood. Others are left alone, so that the server may have more of them some day. */
export function frameOf(data: unknown): Incoming | undefined {
  if (typeof data !== "string") return undefined;
  let f: Record<string, unknown>;
  try {
    f = JSON.parse(data) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  if (typeof f !== "object" || f === null) return undefined;
  f = own<Record<string, unknown>>(f);
  const text = (name: string): string => (typeof f[name] === "string" ? f[name] : "");
  switch (f["type"]) {
    case "session.id":
      return text("sessionId") === "" ? undefined : { type: "session.id", sessionId: text("sessionId") };
    case "turn.started":
      return { type: "turn.started" };
    case "agent.text":
      return { type: "agent.text", text: text("text"), status: text("status") };
    case "agent.action":
      return { type: "agent.action", action: text("action"), label: text("tool") || text("command") || text("action"), status: text("status") };
    case "turn.completed":
      return { type: "turn.completed", text: text("text") };
    case "error":
      return { type: "error", message: text("message") || "Something went wrong." };
  }
  return undefined;
}
