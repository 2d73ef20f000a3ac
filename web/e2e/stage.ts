// Simulates, in front of the real server, states that it cannot be brought to in a test: sessions with recorded logs,
// their interactions, and a house. All other requests go through to it.

import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import type { Answer, Delta, Event, Interaction, SessionInfo } from "../src/api/types.gen.ts";
import { pageOf, windowOf } from "../src/testing/fake.ts";
import { FakeHouse } from "./house.ts";

interface Staged {
  info: SessionInfo;
  events: Event[];
  streams: Set<ServerResponse>;
}

/** Returns the response to an answer. The log shows its effect. */
export type OnAnswer = (interaction: Interaction, answer: Answer) => { status: number; body: unknown };

export class Stage {
  url = "";
  readonly house = new FakeHouse();
  /** If true, requests about the house go to the server's own. */
  realHouse = false;
  /** The number of events that were sent from added sessions. */
  eventsSent = 0;
  readonly answers: { id: string; answer: Answer }[] = [];
  onAnswer: OnAnswer = (interaction, answer) => {
    this.append(interaction.session, [{ turn: interaction.turn, type: "interaction.answered", data: { id: interaction.id, answer, by: "local", client: "api" } }]);
    return { status: 200, body: { ...interaction, open: false, answer, answered_by: "local" } };
  };
  readonly #sessions = new Map<string, Staged>();
  readonly #target: URL;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  static async before(target: string): Promise<Stage> {
    const stage = new Stage(target);
    await new Promise<void>((ready) => stage.#server.listen(0, "127.0.0.1", ready));
    stage.url = `http://127.0.0.1:${(stage.#server.address() as AddressInfo).port}`;
    return stage;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  /** Adds a session with its log so far. */
  put(app: string, events: readonly Event[], title = ""): string {
    const id = events[0]?.session ?? "";
    const at = events.at(-1)?.time ?? "";
    const usage = { input_tokens: 0, output_tokens: 0 };
    const info: SessionInfo = {
      id,
      app,
      user: "local",
      title,
      status: "active",
      busy: "reject",
      created_at: at,
      updated_at: at,
      version: events.length,
      waiting: 0,
      totals: { turns: 1, steps: 1, tool_calls: 0, usage },
    };
    this.#sessions.set(id, { info, events: [...events], streams: new Set() });
    return id;
  }

  /** Appends to a session's log and sends the events to all followers. */
  append(id: string, events: readonly { turn: string; type: Event["type"]; data: unknown; agent?: string }[]): void {
    const s = this.#sessions.get(id);
    if (!s) return;
    for (const e of events) {
      const event = { session: id, seq: s.events.length + 1, time: new Date().toISOString(), ...e } as Event;
      s.events.push(event);
      s.info.version = event.seq;
      for (const stream of s.streams) stream.write(frame(event));
    }
  }

  /** Sends a fragment of a call's text to all followers. */
  delta(d: Delta): void {
    for (const stream of this.#sessions.get(d.session)?.streams ?? []) stream.write(`event: model.delta\ndata: ${JSON.stringify(d)}\n\n`);
  }

  /** The number of followers of a session. */
  followers(id: string): number {
    return this.#sessions.get(id)?.streams.size ?? 0;
  }

  #open(): Interaction[] {
    const open = new Map<string, Interaction>();
    for (const s of this.#sessions.values()) {
      for (const e of s.events) {
        if (e.type === "interaction.opened") open.set(e.data.id, e.data);
        else if (e.type === "interaction.answered" || e.type === "interaction.expired") open.delete(e.data.id);
      }
    }
    return [...open.values()];
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.#target);
    const path = url.pathname;
    const [, , kind, id = "", action] = path.split("/");
    const json = (status: number, body: unknown) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (!this.realHouse && path.startsWith("/apps/home/entities")) {
      this.house.serve(path, response);
      return;
    }
    const session = kind === "sessions" ? this.#sessions.get(id) : undefined;
    if (session && action === "window") {
      json(200, windowOf(session.info, session.events, url.searchParams.get("before")));
    } else if (session && action === "events" && url.searchParams.get("format") === "json") {
      const page = pageOf(session.events, url);
      this.eventsSent += page.events.length;
      json(200, page);
    } else if (session && action === "events") {
      this.#follow(session, Number(request.headers["last-event-id"] ?? url.searchParams.get("after") ?? 0), response);
    } else if (session && request.method === "GET") {
      json(200, session.info);
    } else if (kind === "sessions" && id === "" && request.method === "GET") {
      const app = url.searchParams.get("app");
      const real = (await this.#ask(request.url ?? "/")) as { sessions?: SessionInfo[] };
      json(200, { sessions: [...[...this.#sessions.values()].map((s) => s.info).filter((i) => i.app === app), ...(real.sessions ?? [])] });
    } else if (kind === "interactions" && id === "") {
      const real = (await this.#ask(request.url ?? "/")) as { interactions?: unknown[] };
      json(200, { interactions: [...this.#open().map((i) => ({ ...i, open: true })), ...(real.interactions ?? [])] });
    } else if (kind === "interactions" && action === "answer" && this.#open().some((i) => i.id === id)) {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      const answer = JSON.parse(text) as Answer;
      this.answers.push({ id, answer });
      const { status, body } = this.onAnswer(this.#open().find((i) => i.id === id) as Interaction, answer);
      json(status, body);
    } else {
      this.#pass(request, response);
    }
  }

  #follow(s: Staged, after: number, response: ServerResponse): void {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const e of s.events.slice(after)) response.write(frame(e));
    this.eventsSent += Math.max(0, s.events.length - after);
    s.streams.add(response);
    response.once("close", () => s.streams.delete(response));
  }

  async #ask(path: string): Promise<unknown> {
    return (await fetch(new URL(path, this.#target))).json();
  }

  #pass(from: IncomingMessage, to: ServerResponse): void {
    const headers = { ...from.headers, host: this.#target.host };
    if (headers.origin) headers.origin = this.#target.origin;
    const on = request({ host: this.#target.hostname, port: this.#target.port, path: from.url, method: from.method, headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(to);
    });
    on.once("error", () => to.destroy());
    to.once("close", () => on.destroy());
    from.pipe(on);
  }
}

const frame = (e: Event): string => `id: ${e.seq}\nevent: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`;
