// One exchange: carries a message to the server and its answer back, whatever becomes of the connection. It speaks over the
// WebSocket. Where that was cut it looks into the log by Parley's own API: what has not arrived is sent again, and what has
// is followed to its end.

import { toApiError, type Client } from "../api/client.ts";
import type { Schedule } from "../session/session.ts";
import type { Card, CardState } from "./card.ts";
import type { Flight } from "./keep.ts";
import type { Message, Standing } from "./message.ts";
import { exact, followLast, isFinal, lookLast, type Following, type Seen } from "./resume.ts";
import { NoToken } from "./token.ts";
import type { Incoming, Outgoing, Phone } from "./wire.ts";

export type Phase = "idle" | "signing-in" | "connecting" | "working" | "reconnecting" | "stopping";

/** The conversation that an exchange belongs to. */
export interface Around {
  readonly phone: Phone;
  readonly schedule: Schedule;
  random(): number;
  client(): Client;
  /** Rejects with NoToken. */
  token(): Promise<string>;
  /** A token in place of one that was refused; "" if there is none. */
  instead(refused: string): Promise<string>;
  /** Has a refused token replaced; whether there is another one now. */
  renewed(): Promise<boolean>;
  /** The frame of a message. */
  frame(message: string, token: string): Outgoing;
  /** "" before the server has given one. */
  session(): string;
  began(session: string): void;
  phase(now: Phase): void;
  answer(): Message | undefined;
  /** How many actions of the same turn are shown by earlier messages. */
  earlier(): number;
  change(change: Partial<Message>): void;
  acted(label: string, state: string): void;
  /** What became of the confirmed card. */
  settle(state: CardState, note?: string, asks?: string): void;
  persist(): void;
  /** The exchange is over. */
  ended(state: Standing, error?: string, card?: Card): void;
}

/** How many tokens a turn is given. */
const tries = 3;
const firstWait = 500;
const longestWait = 15_000;
/** A message with the same text may be an earlier one, unless it was asked at about the same time, in ms. The clocks may differ. */
const about = 60_000;

export class Delivery {
  readonly flight: Flight;
  readonly #a: Around;
  #following: Following | undefined;
  /** What was begun before the last change of this number is stale. */
  #run = 0;
  #waiting: { timer: ReturnType<typeof setTimeout>; done: () => void } | undefined;
  #renewed = false;
  #resumed = false;
  /** The requests for a token that were answered, and with what. */
  readonly #asked = new Set<string>();
  #supplied = "";
  /** The token of the message. */
  #sent = "";
  /** How often it was sent and did not arrive. */
  #lost = 0;
  #over = false;

  constructor(flight: Flight, around: Around) {
    this.flight = flight;
    this.#a = around;
  }

  /** Sends it, or goes on with what was sent by an earlier page. */
  start(): void {
    if (this.flight.sent) void this.#resume();
    else if (this.flight.kind === "cancel" || this.flight.kind === "settle") void this.#answer();
    else void this.#go();
  }

  /** Tries now what waits for the next attempt. */
  hurry(): void {
    const w = this.#waiting;
    if (!w) return;
    clearTimeout(w.timer);
    this.#waiting = undefined;
    w.done();
  }

  /** Nothing is told after it. */
  close(): void {
    this.#over = true;
    this.#fresh();
    this.#unfollow();
    this.#a.phone.hangUp(this);
  }

  // As the listener of the phone.

  frame(f: Incoming): void {
    if (this.#over || this.#following || !this.flight.sent) return;
    const a = this.#a;
    switch (f.type) {
      case "session.id":
        a.began(f.sessionId);
        a.persist();
        break;
      case "turn.started":
        this.flight.started = true;
        a.change({ session: a.session() });
        a.persist();
        break;
      case "agent.action":
        this.#acted(f);
        break;
      case "agent.text":
        a.change({ text: f.text });
        break;
      case "turn.completed":
        a.change({ text: f.text });
        this.#end("done");
        break;
      case "error":
        void this.#refused(f.message);
        break;
    }
  }

  lost(): void {
    if (!this.#over && this.flight.sent && !this.#following) void this.#resume();
  }

  /**
   * Answers exactly the one question: no to a confirmation, or what became of a write. Where Parley's own API is not
   * reachable, a message says no, which is one more thing for the agent to read.
   */
  async #answer(): Promise<void> {
    const mine = this.#fresh();
    const { flight } = this;
    this.#a.phase("working");
    try {
      await this.#a.client().answer(flight.card ?? "", { choice: flight.kind === "settle" ? flight.text : "deny" });
      flight.started = true;
    } catch (cause) {
      if (!mine()) return;
      const { code, message } = toApiError(cause);
      if (code !== "conflict") return flight.kind === "settle" ? this.#end("failed", message) : this.#go();
      // It is closed: by an earlier page that went before it knew, or by its time.
    }
    if (!mine()) return;
    flight.sent = true;
    this.#a.persist();
    await this.#resume("working");
  }

  /** Sends the message, as soon as there is a connection. */
  async #go(): Promise<void> {
    const mine = this.#fresh();
    const a = this.#a;
    a.phase("connecting");
    for (let failures = 0; mine(); failures++) {
      try {
        const token = await a.token();
        if (!mine()) return;
        a.phase(failures > 0 ? "reconnecting" : "connecting");
        const line = await a.phone.connected(this);
        if (!mine()) return;
        this.flight.sent = true;
        a.persist();
        a.phase("working");
        this.#sent = token;
        line.send(a.frame(this.flight.text, token));
        return;
      } catch (cause) {
        if (!mine()) return;
        if (cause instanceof NoToken) return this.#end("failed", cause.message);
        a.phase("reconnecting");
        await this.#wait(failures);
      }
    }
  }

  /** Sends it again: not at once, since a server that is ending may still take connections. */
  async #again(): Promise<void> {
    const mine = this.#fresh();
    this.#a.phase("reconnecting");
    await this.#wait(this.#lost++);
    if (mine()) await this.#go();
  }

  #acted(f: Extract<Incoming, { type: "agent.action" }>): void {
    const actions = [...(this.#a.answer()?.actions ?? [])];
    const state = f.status === "completed" || f.status === "failed" ? f.status : "started";
    const at = state === "started" ? -1 : actions.findIndex((x) => x.label === f.label && x.state === "started");
    const action = { label: f.label, ...(f.action !== "tool_call" && { command: true }), state } as const;
    if (at < 0) actions.push(action);
    else actions[at] = action;
    this.#a.change({ actions });
    this.#a.acted(f.label, state);
  }

  /** The server ended the exchange with an error. It may be about the token, which the error does not say. */
  async #refused(message: string): Promise<void> {
    const mine = this.#fresh();
    const { flight } = this;
    if (!this.#renewed) {
      this.#renewed = true;
      // Before a turn, little else is refused than a token.
      const renewed = flight.started ? await this.#a.renewed() : (await this.#a.instead(this.#sent)) !== "";
      if (!mine()) return;
      if (renewed) return flight.started ? this.#resume() : this.#go();
    }
    if (flight.started) {
      // It may have been cut off, or wait for a token, and can go on.
      const seen = await lookLast(this.#a.client(), this.#a.session()).catch(() => undefined);
      if (!mine()) return;
      if (seen?.state === "cut" || seen?.login) return this.#resume();
    }
    this.#end("failed", message);
  }

  /** Goes on with what may have reached the server, once it answers. */
  async #resume(phase: Phase = "reconnecting"): Promise<void> {
    const mine = this.#fresh();
    const a = this.#a;
    a.phase(phase);
    if (a.session() === "") return this.#again();
    for (let failures = 0; mine(); failures++) {
      try {
        const client = a.client();
        const told = {
          seen: (s: Seen | undefined) => mine() && this.#saw(client, s),
          refused: () => mine() && void this.#gone(),
          waiting: (now: boolean) => mine() && a.phase(now ? "reconnecting" : "working"),
        };
        const following = await followLast(client, a.session(), told, a.schedule);
        if (!mine()) return following.close();
        this.#following = following;
        return;
      } catch (cause) {
        if (!mine()) return;
        if (cause instanceof NoToken) return this.#end("failed", cause.message);
        if (isFinal(cause)) return this.#gone();
        await this.#wait(failures);
      }
    }
  }

  /** The session is not there. A server that asks nobody for a login says so, too, when it is the token that has ended. */
  async #gone(): Promise<void> {
    const mine = this.#fresh();
    this.#unfollow();
    if (!this.#renewed) {
      this.#renewed = true;
      const renewed = await this.#a.renewed();
      if (!mine()) return;
      if (renewed) return this.#resume();
    }
    this.#without();
  }

  /** There is nothing to resume by: Parley's own API is not reachable from this page, or does not know the session. */
  #without(): void {
    this.#unfollow();
    if (!this.flight.started && this.flight.kind !== "settle") return void this.#again(); // a confirmation counts once, so it may be sent again, too
    if (this.flight.kind === "confirm") this.#a.settle("unknown", "The connection was lost after you confirmed.");
    this.#end("cut", "The connection was lost before the answer was complete.");
  }

  /** The last turn, as the log has it. */
  #saw(client: Client, s: Seen | undefined): void {
    const { flight } = this;
    const a = this.#a;
    const asked = s?.cards.get(confirmedBy(flight));
    const open = flight.kind === "message" ? false : asked ? asked.state === "open" : s?.open !== undefined && s.open === flight.card;
    if (open || (!flight.started && !this.#isOurs(s, asked !== undefined))) {
      this.#unfollow();
      void this.#again();
      return;
    }
    if (!s || !this.#isOurs(s, asked !== undefined)) return this.#without();
    flight.started = true;
    if (asked && flight.kind === "confirm") a.settle(asked.state, asked.note, asked.asks);
    const actions = s.actions.slice(a.earlier());
    const unsaid = s.text === "" && (s.state === "working" || s.state === "cut");
    a.change({ text: unsaid ? (a.answer()?.text ?? "") : s.text, ...(actions.length > 0 && { actions }), session: a.session() });
    switch (s.state) {
      case "waiting": {
        if (s.login) {
          void this.#supply(client, s.login);
          break;
        }
        const card = s.open ? s.cards.get(s.open)?.card : undefined;
        if (card) void exact(client, card).then((it) => this.#end("done", undefined, it));
        break;
      }
      case "cut":
        void this.#goOn(client, s.turn);
        break;
      case "working":
        break;
      default:
        this.#end(s.state, s.error);
    }
  }

  #isOurs(s: Seen | undefined, confirmed: boolean): boolean {
    const { flight } = this;
    if (!s) return false;
    if (flight.kind === "confirm") return confirmed;
    if (flight.kind === "cancel" || flight.kind === "settle") return true;
    if (s.question !== flight.text) return false;
    return flight.started || s.state === "working" || s.state === "waiting" || s.state === "cut" || s.askedAt >= flight.sentAt - about;
  }

  /** The server has stopped in the middle of the turn, and waits for somebody who may go on with it. */
  async #goOn(client: Client, turn: string): Promise<void> {
    if (this.#resumed) return;
    this.#resumed = true;
    try {
      await client.resume(turn);
    } catch (cause) {
      if (toApiError(cause).code === "conflict") return; // it goes on already
      if (!this.#over) this.#end("cut", "The server was interrupted before the answer was complete.");
    }
  }

  /** Hands the turn the token that it waits for. One that it had already is not tried again. */
  async #supply(client: Client, login: NonNullable<Seen["login"]>): Promise<void> {
    if (this.#asked.has(login.interaction)) return;
    this.#asked.add(login.interaction);
    try {
      if (this.#asked.size === 1) await this.#a.renewed();
      let token = await this.#a.token();
      if (token === this.#supplied) token = await this.#a.instead(token);
      if (this.#over) return;
      if (token === "" || this.#asked.size > tries) return this.#end("failed", "Your sign-in has ended. Sign in again, then try again.");
      this.#supplied = token;
      await client.answer(login.interaction, { choice: "answered" }, Object.fromEntries(login.names.map((name) => [name, token])));
    } catch (cause) {
      if (this.#over || toApiError(cause).code === "conflict") return; // it has been answered
      this.#end("failed", cause instanceof NoToken ? cause.message : toApiError(cause).message);
    }
  }

  #end(state: Standing, error?: string, card?: Card): void {
    if (this.#over) return;
    this.close();
    this.#a.ended(state, error, card);
  }

  /** Waits before the next attempt, longer each time, unless somebody hurries. */
  #wait(failures: number): Promise<void> {
    const span = Math.min(longestWait, firstWait * 2 ** failures);
    return new Promise((done) => {
      this.#waiting = { timer: setTimeout(() => this.hurry(), span / 2 + (span / 2) * this.#a.random()), done };
    });
  }

  /** Makes what runs stale; the returned function says whether nothing newer has begun. */
  #fresh(): () => boolean {
    const mine = ++this.#run;
    if (this.#waiting) clearTimeout(this.#waiting.timer);
    this.#waiting = undefined;
    return () => this.#run === mine;
  }

  #unfollow(): void {
    this.#following?.close();
    this.#following = undefined;
  }
}

const confirmation = "CONFIRM_ACTION: ";

export const confirming = (id: string): string => confirmation + id;

/** The id of the confirmation that a message answers; "" for other messages. */
export const confirmedBy = (flight: Pick<Flight, "kind" | "text">): string => (flight.kind === "confirm" ? flight.text.slice(confirmation.length) : "");
