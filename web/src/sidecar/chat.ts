// The conversation of the panel: what was said, what is under way, and what the tab and the server keep of it.

import { createClient, toApiError, type Client, type Fetch } from "../api/client.ts";
import { newUUID } from "../chat/uuid.ts";
import type { Schedule } from "../session/session.ts";
import { cardOf, isSettled, saidOf, type Card, type CardState, type Outcome } from "./card.ts";
import { conversationsAt, type Conversations } from "./conversations.ts";
import { confirmedBy, confirming, Delivery, type Around, type Phase } from "./delivery.ts";
import { Keep, type Flight, type Kept, type Shelf } from "./keep.ts";
import { openCard, titleOf, type Message, type Standing } from "./message.ts";
import { lookLast } from "./resume.ts";
import type { Addresses } from "./settings.ts";
import { NoToken, signed, type Tokens } from "./token.ts";
import { Phone, type OpenSocket, type Outgoing } from "./wire.ts";

export interface State {
  readonly messages: readonly Message[];
  readonly phase: Phase;
  /** Of the stored conversation; "" before the first message. */
  readonly conversation: string;
  readonly title: string;
  /** Something that went wrong beside the conversation. */
  readonly notice: string;
}

/** What happens, for the host page and for screen readers. */
export type Happening =
  | { type: "message"; text: string }
  | { type: "action"; label: string; state: string }
  | { type: "answer"; text: string }
  | { type: "confirm"; card: Card }
  | { type: "write"; card: Card }
  | { type: "error"; message: string };

export interface Env {
  open: OpenSocket;
  fetch: Fetch;
  shelf: Shelf | undefined;
  now: () => number;
  random: () => number;
  schedule: Schedule;
}

/** What the settings are now. */
export interface Settings {
  addresses(): Addresses;
  org(): string;
  apiBaseUrl(): string;
  /** Whose the kept conversation must be. */
  who(): string;
  /** The page's context for the next message, as text; "". */
  context(): string;
  /** Waits for a token: the page may hand it over later than the panel is there. */
  ready(): Promise<void>;
}

/** How long a turn that was told to stop may take to say so. */
const stopPatience = 8000;

const empty: State = { messages: [], phase: "idle", conversation: "", title: "", notice: "" };

export class Busy extends Error {
  override readonly name = "Busy";
}

export class Chat {
  readonly conversations: Conversations;
  readonly #env: Env;
  readonly #settings: Settings;
  readonly #tokens: Tokens;
  readonly #keep: Keep;
  readonly #fetch: Fetch;
  #state = empty;
  #session = "";
  #pending: Kept | undefined;
  #closed = false;
  #delivery: Delivery | undefined;
  readonly #phone: Phone;
  #saving: Promise<void> = Promise.resolve();
  #expiry: ReturnType<typeof setTimeout> | undefined;
  /** Whether the panel is open and what is typed: kept with the rest. */
  panel = { open: false, draft: "" };
  changed: () => void = () => undefined;
  happened: (h: Happening) => void = () => undefined;

  constructor(env: Env, settings: Settings, tokens: Tokens) {
    this.#env = env;
    this.#settings = settings;
    this.#tokens = tokens;
    this.#keep = new Keep(env.shelf, "1");
    this.#pending = this.#keep.read();
    this.#fetch = signed(env.fetch, tokens, settings.org);
    this.conversations = conversationsAt(() => settings.addresses().api, this.#fetch);
    this.#phone = new Phone(env.open, () => settings.addresses().ws);
    tokens.asking = (now) => {
      if (now && this.#delivery) this.#set({ phase: "signing-in" });
    };
  }

  get state(): State {
    return this.#state;
  }

  get busy(): boolean {
    return this.#delivery !== undefined;
  }

  // What the person and the host page do.

  /** Sends a message. An open confirmation is declined by it. Throws Busy while an answer is under way. */
  send(text: string): void {
    if (this.#delivery) throw new Busy("An answer is under way.");
    const said = text.trim();
    if (said === "") return;
    const open = openCard(this.#state.messages);
    if (open) this.#card(open.id, "cancelled", "Another message was sent instead.");
    for (const m of this.#state.messages) if (m.card?.asks) this.#card(m.id, m.card.state, m.card.note);
    const context = this.#settings.context();
    const sent = context === "" ? said : `${said}\n\n${context}`;
    const message: Message = { id: newUUID(), from: "user", text: said, at: this.#env.now(), ...(sent !== said && { sent }) };
    this.#set({ messages: [...this.#state.messages, message], ...(this.#state.title === "" && { title: titleOf(said) }) });
    this.happened({ type: "message", text: said });
    this.#begin("message", sent);
  }

  /** Confirms an open card. */
  confirm(id: string): void {
    const m = this.#openCard(id);
    if (!m || this.#delivery) return;
    if (m.card?.expires !== undefined && m.card.expires <= this.#env.now()) return this.#card(m.id, "expired");
    this.#card(m.id, "sent");
    this.#begin("confirm", confirming(id));
  }

  /** Declines an open card. */
  cancel(id: string): void {
    const m = this.#openCard(id);
    if (!m || this.#delivery) return;
    this.#card(m.id, "cancelled");
    this.#begin("cancel", "Cancel.", id);
  }

  /** Says what became of a write whose outcome is not known. */
  settle(id: string, outcome: Outcome): void {
    const m = this.#state.messages.findLast((m) => m.card?.id === id && m.card.asks !== undefined);
    if (!m?.card?.asks || this.#delivery) return;
    const { asks } = m.card;
    this.#card(m.id, "unknown", saidOf[outcome]);
    this.#begin("settle", outcome, asks);
  }

  /** Asks again what had no whole answer. */
  again(): void {
    const asked = this.#state.messages.findLast((m) => m.from === "user");
    const last = this.#state.messages.at(-1);
    if (this.#delivery || !asked || !last || last.from === "user" || last.state === "done") return;
    this.#set({ messages: this.#state.messages.slice(0, -1) });
    this.#begin("message", asked.sent ?? asked.text);
  }

  /** Tries now what waits for the next attempt. */
  hurry(): void {
    this.#delivery?.hurry();
  }

  /** Stops the answer that is under way. */
  async stop(): Promise<void> {
    const delivery = this.#delivery;
    if (!delivery || this.#state.phase === "stopping") return;
    const end = (why?: string) => {
      if (this.#delivery !== delivery) return;
      delivery.close();
      this.#ended(delivery.flight, "stopped", why);
    };
    if (!delivery.flight.sent) return end();
    this.#set({ phase: "stopping" });
    const late = setTimeout(end, stopPatience);
    try {
      const client = this.#client();
      const { turn } = await client.session(this.#session);
      if (turn) await client.cancel(turn.id, "stopped in the panel");
      else end();
    } catch {
      clearTimeout(late);
      end("The server could not be told to stop. It may go on with this.");
    }
  }

  /** Begins a conversation. What was under way goes on at the server, and is there when its conversation is opened again. */
  fresh(): void {
    if (this.#state.messages.length > 0) this.#pending = undefined;
    this.#leave();
    this.#session = "";
    this.#set({ ...empty });
    this.#persist();
  }

  /** Opens a stored conversation. */
  async show(id: string): Promise<void> {
    const { title, messages } = await this.conversations.read(id);
    this.#pending = undefined;
    this.#leave();
    this.#session = messages.findLast((m) => m.session)?.session ?? "";
    this.#set({ ...empty, conversation: id, title, messages });
    this.#continue(undefined);
    this.#persist();
  }

  async rename(id: string, title: string): Promise<void> {
    await this.conversations.save(id, { title });
    if (id === this.#state.conversation) this.#set({ title });
    this.#persist();
  }

  /** Deletes a conversation, and ends its session if this page has used it. */
  async remove(id: string): Promise<void> {
    await this.conversations.remove(id);
    if (id !== this.#state.conversation) return;
    if (this.#session !== "") this.#phone.reset(this.#session);
    this.fresh();
  }

  dismiss(): void {
    this.#set({ notice: "" });
  }

  /** Forgets the person: what is in the tab, and what is shown. */
  forget(): void {
    this.#phone.close();
    this.panel.draft = "";
    this.#pending = undefined;
    this.fresh();
    this.#keep.forget();
  }

  /**
   * Takes up what the tab has kept, if it is this person's. The page may say later than the panel is there who that is and
   * for which organisation, so it is tried again whenever the page says something; until then it is kept, and not shown.
   */
  async restore(): Promise<void> {
    const kept = this.#pending;
    if (!kept) return;
    if (kept.flight || kept.who !== this.#settings.who()) await this.#settings.ready();
    if (this.#pending !== kept || this.#closed || kept.org !== this.#settings.org() || kept.who !== this.#settings.who()) return;
    this.#pending = undefined;
    this.#session = kept.session;
    this.panel.draft ||= kept.draft;
    this.#set({ messages: kept.messages, conversation: kept.conversation, title: kept.title });
    this.#continue(kept.flight);
  }

  /** What was kept and is not shown yet. */
  kept(): Kept | undefined {
    return this.#pending;
  }

  /** Writes what the tab keeps: also the text in flight, when the page goes. */
  persist(): void {
    this.#persist();
  }

  close(): void {
    this.#persist();
    this.#closed = true;
    this.#leave();
    this.#phone.close();
  }

  // What is under way.

  #begin(kind: Flight["kind"], text: string, card?: string): void {
    const answer: Message = { id: newUUID(), from: "agent", text: "", at: this.#env.now(), state: "working" };
    this.#set({ messages: [...this.#state.messages, answer], notice: "" });
    this.#deliver({ kind, text, ...(card !== undefined && { card }), answer: answer.id, sentAt: this.#env.now(), sent: false, started: false });
    this.#persist();
    this.#save();
  }

  #deliver(flight: Flight): void {
    const around: Around = {
      phone: this.#phone,
      schedule: this.#env.schedule,
      random: this.#env.random,
      client: () => this.#client(),
      token: () => this.#tokens.get(),
      instead: (refused) => this.#tokens.instead(refused),
      renewed: () => this.#renewed(),
      frame: (message, token) => this.#frame(message, token),
      session: () => this.#session,
      began: (session) => {
        this.#session = session;
        this.#message(flight.answer, { session });
      },
      phase: (now) => this.#state.phase !== "stopping" && this.#set({ phase: now }),
      answer: () => this.#of(flight.answer),
      earlier: () => this.#earlier(flight),
      change: (change) => this.#message(flight.answer, change),
      acted: (label, state) => this.happened({ type: "action", label, state }),
      settle: (state, note, asks) => this.#settle(flight, state, note, asks),
      persist: () => this.#persist(),
      ended: (state, error, card) => this.#ended(flight, state, error, card),
    };
    this.#delivery = new Delivery(flight, around);
    this.#delivery.start();
  }

  #frame(message: string, token: string): Outgoing {
    const org = this.#settings.org();
    const base = this.#settings.apiBaseUrl();
    return { type: "chat", message, token, live: true, ...(org && { orgId: org }), ...(base && { apiBaseUrl: base }), ...(this.#session && { sessionId: this.#session }) };
  }

  /** A request of the conversations shows whether the token is refused, and has it replaced. */
  async #renewed(): Promise<boolean> {
    const token = () => this.#tokens.get().catch(() => "");
    const before = await token();
    await this.conversations.list("").catch(() => undefined);
    const after = await token();
    return after !== "" && after !== before;
  }

  /** How many actions of the same turn earlier messages show. */
  #earlier(flight: Flight): number {
    const { messages } = this.#state;
    const from = messages.findLastIndex((m) => m.from === "user");
    return messages.slice(from).reduce((n, m) => n + (m.id === flight.answer ? 0 : (m.actions?.length ?? 0)), 0);
  }

  /** Ends what is under way. */
  #ended(flight: Flight, state: Standing, error?: string, card?: Card): void {
    this.#delivery = undefined;
    const message = this.#of(flight.answer);
    const found = card ?? (state === "done" ? cardOf(message?.text ?? "") : undefined);
    // What had been asked for and was not seen through has no outcome.
    const actions = message?.actions?.map((a) => (a.state === "started" && state !== "done" ? { ...a, state: "failed" as const } : a));
    this.#message(flight.answer, { state, ...(error && { error }), ...(actions && { actions }), ...(found && { card: found, text: "" }) });
    this.#set({ phase: "idle" });
    if (flight.kind === "confirm") void this.#outcome(flight, error);
    if (found) this.#watchExpiry();
    if (found) this.happened({ type: "confirm", card: found });
    else if (state === "done") this.happened({ type: "answer", text: message?.text ?? "" });
    if (error) this.happened({ type: "error", message: error });
    this.#persist();
    this.#save();
  }

  // Cards.

  #openCard(id: string): Message | undefined {
    return this.#state.messages.findLast((m) => m.card?.id === id && m.card.state === "open");
  }

  #card(message: string, state: CardState, note?: string, asks?: string): void {
    const card = this.#of(message)?.card;
    if (!card || (card.state === state && card.note === note && card.asks === asks)) return;
    const { asks: _, ...rest } = card;
    const next: Card = { ...rest, state, ...(note !== undefined && { note }), ...(asks !== undefined && { asks }) };
    this.#message(message, { card: next });
    if (card.state !== state && (state === "done" || state === "failed" || state === "unknown")) this.happened({ type: "write", card: next });
    this.#persist();
  }

  /** The card that a confirmation is about. */
  #settle(flight: Flight, state: CardState, note?: string, asks?: string): void {
    const m = this.#state.messages.findLast((m) => m.card?.id === confirmedBy(flight));
    if (!m?.card || state === "open") return;
    // The question about an outcome that is not known comes a moment later.
    if (!isSettled(m.card.state) || (m.card.state === "unknown" && state === "unknown")) this.#card(m.id, state, note, asks);
  }

  /** What became of a confirmed write: by its action, and where that does not tell, by the log. */
  async #outcome(flight: Flight, error: string | undefined): Promise<void> {
    const m = this.#state.messages.findLast((m) => m.card?.id === confirmedBy(flight));
    const card = m?.card;
    if (!m || !card || card.state !== "sent") return;
    const label = `${card.method} ${card.path.replace(/[?#].*$/s, "")}`;
    const acted = this.#of(flight.answer)?.actions?.find((a) => a.label === label || a.label === `${card.method} ${card.path}`);
    if (acted?.state === "completed") this.#settle(flight, "done");
    else {
      const seen = await lookLast(this.#client(), this.#session).catch(() => undefined);
      const asked = seen?.cards.get(card.id);
      if (asked?.state === "open") this.#card(m.id, "open");
      else if (asked && isSettled(asked.state)) this.#settle(flight, asked.state, error ?? asked.note, asked.asks);
      else if (error && !flight.started) this.#settle(flight, "refused", error);
      else this.#settle(flight, acted?.state === "failed" ? "failed" : "unknown", error);
    }
    this.#save();
  }

  /** Asks when the open card expires, and says so when it has. After a while away it may have been answered elsewhere. */
  #watchExpiry(away = false): void {
    clearTimeout(this.#expiry);
    const m = openCard(this.#state.messages);
    const card = m?.card;
    if (!m || !card || card.state !== "open") return;
    const until = (at: number) => {
      clearTimeout(this.#expiry);
      this.#expiry = setTimeout(() => this.#openCard(card.id) && !this.#delivery && this.#card(m.id, "expired"), Math.min(Math.max(0, at - this.#env.now()), 2 ** 31 - 1));
    };
    if (card.expires !== undefined) until(card.expires);
    if (card.expires !== undefined && !away) return;
    void lookLast(this.#client(), this.#session)
      .then((seen) => {
        const asked = seen?.cards.get(card.id);
        if (!asked || !this.#openCard(card.id) || this.#delivery) return;
        if (asked.state !== "open") return this.#card(m.id, asked.state, asked.note, asked.asks);
        if (asked.card.expires === undefined) return;
        this.#message(m.id, { card: { ...card, expires: asked.card.expires } });
        until(asked.card.expires);
      })
      .catch(() => undefined);
  }

  // Keeping and telling.

  /** Goes on after a page change, or with an opened conversation. */
  #continue(flight: Flight | undefined): void {
    const last = this.#state.messages.at(-1);
    const begun = flight ?? this.#begun(last);
    if (begun && last?.id === begun.answer && last.state === "working") {
      this.#deliver({ ...begun });
    } else if (last?.state === "working") {
      this.#message(last.id, { state: "cut" });
    }
    if (!this.#delivery) this.#watchExpiry(true);
  }

  /** What a stored conversation says that was under way when its page went. */
  #begun(last: Message | undefined): Flight | undefined {
    if (last?.state !== "working" || !last.session) return undefined;
    const sent = this.#state.messages.find((m) => m.card?.state === "sent")?.card;
    const asked = this.#state.messages.findLast((m) => m.from === "user");
    const about = { answer: last.id, sentAt: last.at, sent: true, started: true };
    if (sent) return { kind: "confirm", text: confirming(sent.id), ...about };
    return asked && { kind: "message", text: asked.sent ?? asked.text, ...about };
  }

  #persist(): void {
    const { messages, conversation, title } = this.#state;
    if (this.#pending && messages.length === 0) return this.#keep.write({ ...this.#pending, ...this.panel });
    this.#pending = undefined;
    if (messages.length === 0 && !this.panel.open && this.panel.draft === "") return this.#keep.forget();
    this.#keep.write({
      who: this.#settings.who(),
      org: this.#settings.org(),
      ...this.panel,
      session: this.#session,
      conversation,
      title,
      messages: [...messages],
      ...(this.#delivery && { flight: this.#delivery.flight }),
    });
  }

  /** Stores the conversation, one request after another. Only the last state counts. */
  #save(): void {
    const mine = this.#state;
    this.#saving = this.#saving.then(async () => {
      const { conversation, messages, title } = this.#state.messages[0] === mine.messages[0] ? this.#state : mine;
      if (messages.length === 0) return;
      try {
        if (conversation !== "") {
          try {
            return await this.conversations.save(conversation, { messages });
          } catch (cause) {
            if (toApiError(cause).status !== 404) throw cause; // deleted elsewhere: it is stored again
          }
        }
        const id = await this.conversations.create(title, messages);
        if (this.#state.messages[0] === mine.messages[0]) {
          this.#set({ conversation: id });
          this.#persist();
        }
      } catch (cause) {
        if (cause instanceof NoToken || this.#state.messages[0] !== mine.messages[0]) return;
        this.#set({ notice: `This conversation is not stored: ${toApiError(cause).message}` });
      }
    });
  }

  #client(): Client {
    return createClient(this.#settings.addresses().server, this.#fetch, () => true);
  }

  #leave(): void {
    this.#delivery?.close();
    this.#delivery = undefined;
    clearTimeout(this.#expiry);
  }

  #of(id: string): Message | undefined {
    return this.#state.messages.find((m) => m.id === id);
  }

  #message(id: string, change: Partial<Message>): void {
    this.#set({ messages: this.#state.messages.map((m) => (m.id === id ? { ...m, ...change } : m)) });
  }

  #set(change: Partial<State>): void {
    this.#state = { ...this.#state, ...change };
    this.changed();
  }
}

