// A stand-in for the server of the sidecar's wire: the WebSocket of the chat, and the stored conversations. Tests say what
// it answers; Parley's own API is a FakeParley beside it.

import type { Fetch } from "../api/client.ts";
import type { OpenSocket } from "../sidecar/wire.ts";
import { FakeParley } from "./fake.ts";

type Frame = Record<string, unknown>;

export class FakeSocket {
  onopen: (() => void) | null = null;
  onmessage: ((e: { data: unknown }) => void) | null = null;
  onclose: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly said: Frame[] = [];
  readonly #server: FakeCodex;
  closed = false;

  constructor(server: FakeCodex) {
    this.#server = server;
    queueMicrotask(() => {
      if (server.down) return this.cut();
      server.sockets.push(this);
      this.onopen?.();
    });
  }

  send(data: string): void {
    const frame = JSON.parse(data) as Frame;
    this.said.push(frame);
    this.#server.heard.push(frame);
    this.#server.answer(this, frame);
  }

  close(): void {
    this.closed = true;
  }

  /** The server says something. */
  says(...frames: Frame[]): void {
    for (const f of frames) this.onmessage?.({ data: JSON.stringify(f) });
  }

  cut(): void {
    if (this.closed) return;
    this.closed = true;
    this.onerror?.();
    this.onclose?.();
  }
}

export class FakeCodex {
  readonly parley = new FakeParley();
  readonly sockets: FakeSocket[] = [];
  /** All that was said, on all sockets. */
  readonly heard: Frame[] = [];
  readonly stored = new Map<string, { title: string; messages: unknown[] }>();
  readonly requests: string[] = [];
  /** Tokens that are refused. */
  readonly refused = new Set<string>();
  down = false;
  answer: (socket: FakeSocket, frame: Frame) => void = () => undefined;

  get socket(): FakeSocket {
    const last = this.sockets.at(-1);
    if (!last) throw new Error("nobody has connected");
    return last;
  }

  readonly open: OpenSocket = () => new FakeSocket(this) as unknown as WebSocket;

  readonly fetch: Fetch = async (input, init) => {
    const { pathname } = new URL(input);
    if (!pathname.startsWith("/api/chat/conversations")) return this.parley.fetch(input, init);
    const method = init?.method ?? "GET";
    const headers = new Headers(init?.headers);
    this.requests.push(`${method} ${pathname}${headers.get("X-Org-Id") ? ` for ${headers.get("X-Org-Id")}` : ""}`);
    await Promise.resolve();
    if (this.down) throw new TypeError("fetch failed");
    const json = (status: number, body: unknown) => new Response(body === undefined ? null : JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
    if (this.refused.has((headers.get("Authorization") ?? "").slice("Bearer ".length))) return json(401, { error: { code: "unauthenticated", message: "Log in again." } });
    const id = pathname.split("/")[4] ?? "";
    const body = init?.body ? (JSON.parse(String(init.body)) as { title?: string; messages?: unknown[] }) : {};
    if (id === "" && method === "GET") return json(200, [...this.stored].map(([id, c]) => ({ id, title: c.title, updated_at: "2026-01-02T03:04:05Z" })));
    if (id === "") {
      const made = `c${this.stored.size + 1}`;
      this.stored.set(made, { title: body.title ?? "", messages: body.messages ?? [] });
      return json(201, { id: made });
    }
    const c = this.stored.get(id);
    if (!c) return json(404, { detail: "Conversation not found" });
    if (method === "PUT") Object.assign(c, body);
    if (method === "DELETE") this.stored.delete(id);
    return method === "DELETE" ? json(204, undefined) : json(200, { id, ...c });
  };
}

/** A browser's storage. */
export function shelfOf(kept = new Map<string, string>()): Pick<Storage, "getItem" | "setItem" | "removeItem"> {
  return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => void kept.set(k, v), removeItem: (k) => void kept.delete(k) };
}
