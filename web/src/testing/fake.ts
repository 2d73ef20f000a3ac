// A server for tests, behind fetch: it keeps logs and streams them like the real one. Tests
// decide what happens in them and when the network fails.

import type { Fetch, SessionWindow } from "../api/client.ts";
import type { Answer, Delta, EntityRef, Event, EventOf, Interaction, PermissionMode, Pin, ResourceRef, SessionInfo } from "../api/types.gen.ts";

interface FakeSession {
  id: string;
  outsideID: string;
  title: string;
  events: Event[];
  streams: Set<ReadableStreamDefaultController<Uint8Array>>;
  /** The text so far, of calls that have not ended. */
  partials: Map<string, Delta>;
  keys: Map<string, string>;
}

const json = (status: number, body: unknown): Response =>
  new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });

const refuse = (status: number, code: string, message: string, hint = ""): Response => json(status, { error: { code, message, hint } });

export class FakeParley {
  readonly sessions = new Map<string, FakeSession>();
  readonly requests: string[] = [];
  /** Every request fails as if there were no network. */
  down = false;
  /**
   * Answers the next request with this method and path pattern instead of the server; undefined
   * leaves it to the server.
   */
  intercept: ((method: string, path: string) => Response | undefined) | undefined;
  /** Called for each new turn. */
  onTurn: ((session: string, turn: string, message: string) => void) | undefined;
  /** The page size of the list of sessions. */
  page = 500;
  #next = 0;
  readonly #text = new TextEncoder();

  id(kind: string): string {
    return `${kind}${String(++this.#next).padStart(4, "0")}`;
  }

  readonly fetch: Fetch = async (input, init) => {
    const url = new URL(input, "http://parley.test/");
    const method = init?.method ?? "GET";
    const path = url.pathname.replace(/^\//, "");
    this.requests.push(`${method} ${path}${url.search}`);
    await Promise.resolve();
    if (init?.signal?.aborted) throw new DOMException("aborted", "AbortError");
    if (this.down) throw new TypeError("fetch failed");
    const instead = this.intercept?.(method, path);
    if (instead) return instead;
    const body = init?.body ? (JSON.parse(String(init.body)) as Record<string, unknown>) : {};
    const headers = new Headers(init?.headers);
    return this.#answer(method, path, url, body, headers, init?.signal ?? undefined);
  };

  #answer(method: string, path: string, url: URL, body: Record<string, unknown>, headers: Headers, signal: AbortSignal | undefined): Response {
    const [, kind, id, action] = path.split("/");
    if (kind === "apps" && action === "commands") return json(200, { commands: [{ name: "usual", description: "As ever", from: "app" }] });
    if (kind === "apps" && action === "resources") return json(200, { resources: [{ server: "files", uri: "file:///usual", name: "usual" }] });
    if (kind === "apps") return this.#apps(id);
    if (kind === "turns" && id && action) return this.#turn(id, action, body);
    if (kind === "interactions") return id && action === "answer" ? this.#answerTo(id, body as unknown as Answer) : this.#inbox();
    if (kind !== "sessions") return refuse(404, "not_found", "no such address");
    if (!id) {
      if (method === "GET") {
        const from = Number(url.searchParams.get("cursor") ?? 0);
        const to = from + Math.min(this.page, Number(url.searchParams.get("limit") ?? 50));
        const all = [...this.sessions.values()].map(info);
        return json(200, { sessions: all.slice(from, to), ...(to < all.length && { next: String(to) }) });
      }
      const outside = String(body["outside_id"] ?? "");
      const have = [...this.sessions.values()].find((s) => s.outsideID === outside);
      return json(201, info(have ?? this.create(outside, body["mode"] as PermissionMode | undefined, body["attached_entities"] as EntityRef[] | undefined, body["runtime"] as string | undefined)));
    }
    const s = this.sessions.get(id);
    if (!s) return refuse(404, "not_found", "there is no such session", "it may have been deleted");
    if (action === "window") return json(200, windowOf(info(s), s.events, url.searchParams.get("before")));
    if (action === "events" && url.searchParams.get("format") === "json") return json(200, pageOf(s.events, url));
    if (action === "events") return this.#follow(s, url, headers, signal);
    if (action === "commands") return json(200, { commands: [{ name: "own", description: "Its workspace's", from: "workspace" }] });
    if (action === "turns") return this.#send(s, String(body["message"] ?? ""), headers.get("Idempotency-Key") ?? "", body["resources"] as ResourceRef[] | undefined);
    switch (method) {
      case "PATCH": {
        const { pins, ...updated } = body as { title?: string; mode?: PermissionMode; runtime?: string; attached_entities?: EntityRef[]; pins?: Pin[] };
        if (Object.keys(updated).length > 0) {
          const none = updated.attached_entities?.length === 0; // which Go writes as null
          this.emit(id, "session.updated", { data: { ...updated, ...(none && { attached_entities: null as unknown as EntityRef[] }) } });
        }
        if (pins) this.emit(id, "memory.updated", { data: { pins } });
        return json(200, info(s));
      }
      case "DELETE":
        this.sessions.delete(id);
        this.cut();
        return json(204, undefined);
    }
    return json(200, info(s));
  }

  #apps(name: string | undefined): Response {
    const app = {
      name: "chaos",
      title: "ChaosContext",
      description: "Finds what was decided last, in Slack and Notion, and says so.",
      model: { name: "scripted-demo", scripted: true },
      examples: ["I'm starting on the login system. What's the final spec?", "What library should I use for that?"],
      notices: [],
    };
    return json(200, name ? app : { apps: [app] });
  }

  create(outsideID: string, mode?: PermissionMode, entities?: EntityRef[], runtime?: string): FakeSession {
    const s: FakeSession = { id: this.id("S"), outsideID, title: "", events: [], streams: new Set(), partials: new Map(), keys: new Map() };
    this.sessions.set(s.id, s);
    this.emit(s.id, "session.created", {
      data: { app: "chaos", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 1, outside_id: outsideID, ...(mode && { mode }), ...(entities && { attached_entities: entities }), ...(runtime && { runtime }) },
    });
    return s;
  }

  #send(s: FakeSession, message: string, key: string, resources: ResourceRef[] = []): Response {
    const before = s.keys.get(key);
    if (before) return json(202, { id: before, session_id: s.id, status: "running" });
    if (openTurn(s)) return refuse(409, "busy", "a turn is running in this session", "wait for its end, or cancel it");
    const turn = this.begin(s.id, message, undefined, resources);
    if (key) s.keys.set(key, turn);
    this.onTurn?.(s.id, turn, message);
    return json(202, { id: turn, session_id: s.id, status: "running" });
  }

  begin(session: string, message: string, retryOf?: string, resources: readonly ResourceRef[] = []): string {
    const turn = this.id("T");
    this.emit(session, "turn.started", {
      turn,
      data: {
        origin: "user",
        message: { role: "user", parts: [{ type: "text", text: message }, ...resources.map((r) => ({ type: "resource" as const, ...r, text: "read" }))] },
        budgets: {},
        app: "0",
        ...(retryOf && { retry_of: retryOf }),
      },
    });
    return turn;
  }

  #turn(id: string, action: string, body: Record<string, unknown>): Response {
    for (const s of this.sessions.values()) {
      const start = s.events.find((e): e is EventOf["turn.started"] => e.type === "turn.started" && e.turn === id);
      if (!start) continue;
      if (action === "cancel") {
        if (openTurn(s) !== id) return refuse(409, "conflict", "the turn has ended");
        this.emit(s.id, "turn.cancelled", { turn: id, data: { reason: String(body["reason"]), by: "local", usage: { input_tokens: 0, output_tokens: 0 } } });
        return json(200, { id, session_id: s.id, status: "cancelled" });
      }
      if (action === "retry") {
        const text = start.data.message.parts?.[0]?.text ?? "";
        const turn = this.begin(s.id, text, id);
        this.onTurn?.(s.id, turn, text);
        return json(202, { id: turn, session_id: s.id, status: "running" });
      }
      this.emit(s.id, "turn.resumed", { turn: id, data: { attempt: 1 } });
      return json(202, { id, session_id: s.id, status: "running" });
    }
    return refuse(404, "not_found", "there is no such turn");
  }

  /** Asks for permission within a turn. */
  ask(session: string, turn: string): string {
    const id = this.id("I");
    const interaction: Interaction = { id, session, turn, kind: "permission", title: "Allow it?", choices: ["allow", "deny"], opened_at: new Date().toISOString() };
    this.emit(session, "interaction.opened", { turn, data: interaction });
    return id;
  }

  #open(): Interaction[] {
    const open = new Map<string, Interaction>();
    for (const e of [...this.sessions.values()].flatMap((s) => s.events)) {
      if (e.type === "interaction.opened") open.set(e.data.id, e.data);
      else if (e.type === "interaction.answered") open.delete(e.data.id);
    }
    return [...open.values()];
  }

  #inbox(): Response {
    return json(200, { interactions: this.#open().map((i) => ({ ...i, open: true })) });
  }

  #answerTo(id: string, answer: Answer): Response {
    const i = this.#open().find((i) => i.id === id);
    if (!i) return refuse(409, "conflict", `interaction ${id} was answered by ana with deny`, "the first answer counts");
    this.emit(i.session, "interaction.answered", { turn: i.turn, data: { id, answer, by: "local", client: "api" } });
    return json(200, { ...i, open: false, answer });
  }

  #follow(s: FakeSession, url: URL, headers: Headers, signal: AbortSignal | undefined): Response {
    const after = Number(headers.get("Last-Event-ID") ?? url.searchParams.get("after") ?? 0);
    let mine: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (stream) => {
        mine = stream;
        for (const e of s.events) if (e.seq > after) stream.enqueue(this.#event(e));
        for (const d of s.partials.values()) stream.enqueue(this.#frame("model.partial", d));
        s.streams.add(stream);
        signal?.addEventListener("abort", () => {
          if (s.streams.delete(stream)) stream.error(new DOMException("aborted", "AbortError"));
        });
      },
      cancel: () => void (mine && s.streams.delete(mine)),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  #event(e: Event): Uint8Array {
    return this.#text.encode(`id: ${e.seq}\nevent: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
  }

  #frame(event: string, data: unknown): Uint8Array {
    return this.#text.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Appends an event and sends it to all followers. */
  emit<T extends Event["type"]>(session: string, type: T, e: { turn?: string; agent?: string; data: EventOf[T]["data"] }): void {
    const s = this.sessions.get(session);
    if (!s) return;
    const event = {
      session,
      seq: s.events.length + 1,
      time: new Date().toISOString(),
      type,
      ...e,
    } as unknown as Event;
    s.events.push(event);
    if (event.type === "session.updated") s.title = event.data.title ?? s.title;
    if (event.type === "model.replied" || event.type === "model.failed") s.partials.delete(event.data.call);
    for (const stream of s.streams) stream.enqueue(this.#event(event));
  }

  /** Sends a fragment of a call's text. */
  delta(session: string, turn: string, agent: string, call: string, text: string): void {
    const s = this.sessions.get(session);
    if (!s) return;
    const have = s.partials.get(call);
    const d: Delta = { session, turn, agent, call, n: (have?.n ?? 0) + 1, text };
    s.partials.set(call, { ...d, text: (have?.text ?? "") + text });
    for (const stream of s.streams) stream.enqueue(this.#frame("model.delta", d));
  }

  /** Closes every open connection. */
  cut(): void {
    for (const s of this.sessions.values()) {
      for (const stream of s.streams) stream.error(new TypeError("network error"));
      s.streams.clear();
    }
  }

  /** Plays the answer of one agent to its end. */
  answer(session: string, turn: string, pieces: string[]): void {
    const call = this.id("C");
    this.emit(session, "agent.started", { turn, agent: "interface", data: { name: "interface" } });
    this.emit(session, "model.started", { turn, agent: "interface", data: { call, model: "scripted-demo", context: "0", reserved: { input_tokens: 1, output_tokens: 1 } } });
    for (const p of pieces) this.delta(session, turn, "interface", call, p);
    const text = pieces.join("");
    const usage = { input_tokens: 120, output_tokens: 30 };
    this.emit(session, "model.replied", { turn, agent: "interface", data: { call, model: "scripted-demo", parts: [{ type: "text", text }], usage } });
    this.emit(session, "turn.completed", { turn, data: { response: { message: text }, usage } });
  }
}

/** The number of turns in a window of the fake: so few that tests exceed it. */
export const windowTurns = 4;

/** The window of the last turns, as the server computes it. */
export function windowOf(session: SessionInfo, events: readonly Event[], before: string | null): SessionWindow {
  const starts = events.filter((e) => (e.type === "turn.started" || e.type === "turn.queued") && e.turn);
  const first = [...new Map(starts.map((e) => [e.turn, e.seq] as const).reverse()).entries()].reverse();
  const older = before ? first.slice(0, first.findIndex(([turn]) => turn === before)) : first;
  const last = older.slice(-windowTurns);
  const more = last.length < older.length;
  return { session, after: more ? (last[0]?.[1] ?? 1) - 1 : 0, turns: last.length, more, mode: "", max_open_turns: 1, pins: [], rules: [] };
}

/** A page of a log, as the server returns it. */
export function pageOf(events: readonly Event[], url: URL): { events: Event[]; next: number; more: boolean } {
  const after = Number(url.searchParams.get("after") ?? 0);
  const list = events.filter((e) => e.seq > after);
  const page = list.slice(0, Number(url.searchParams.get("limit") ?? 1000));
  return { events: page, next: page.at(-1)?.seq ?? after, more: page.length < list.length };
}

function openTurn(s: FakeSession): string | undefined {
  let open: string | undefined;
  for (const e of s.events) {
    if (e.type === "turn.started") open = e.turn;
    if (["turn.completed", "turn.failed", "turn.cancelled", "turn.expired"].includes(e.type)) open = undefined;
  }
  return open;
}

function info(s: FakeSession): SessionInfo {
  const turn = openTurn(s);
  return {
    id: s.id,
    app: "chaos",
    user: "local",
    outside_id: s.outsideID,
    title: s.title,
    status: "active",
    busy: "reject",
    created_at: s.events[0]?.time ?? "",
    updated_at: s.events.at(-1)?.time ?? "",
    version: s.events.length,
    waiting: 0,
    totals: { turns: 0, steps: 0, tool_calls: 0, usage: { input_tokens: 0, output_tokens: 0 } },
    ...(turn && { turn: { id: turn, status: "running" as const } }),
  };
}
