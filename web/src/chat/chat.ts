// What a page with a chat does: which session is open, what is being sent, what
// is asked and answered. Where the list of sessions is kept differs from page to
// page, and is left to them. Everything here can be run without a browser.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError, type Client, type SessionWindow } from "../api/client.ts";
import type { Answer, BusyMode, PermissionMode, Pin, Rule, SessionInfo, TurnView } from "../api/types.gen.ts";
import { exchangesOf, isOpen, type Exchange } from "../session/exchange.ts";
import { Inbox } from "../session/inbox.ts";
import { beginAt } from "../session/live.ts";
import { isWaiting, noRecords, type Records } from "../session/records.ts";
import { perFrame, watch, type Schedule, type Watch } from "../session/session.ts";
import { keyOf, type ChatState, type Known, type Opened, type Words } from "./state.ts";
import { newUUID } from "./uuid.ts";

/** A message on its way. The key makes asking twice the same as asking once. */
interface Outbox {
  key: string;
  text: string;
  /** What becomes of it while a turn is open; without, what the session says. */
  busy: BusyMode | undefined;
  /** The last turn before it. */
  before: string | undefined;
  turn?: string;
  error?: ApiError;
  stop?: boolean;
}

/** What a session's index said when the reading of its log began. */
interface Begun {
  /** Its first message. */
  preview: string;
  /** What it had cost, up to this event. */
  usd: number;
  version: number;
}

export interface ChatDeps {
  client: Client;
  app?: string;
  uuid?: () => string;
  now?: () => Date;
  schedule?: Schedule;
}

/** Sessions that go on in the background keep their connection until they end; a browser allows six to one host. */
const mostWatched = 3;

export abstract class Chat<S extends ChatState = ChatState> {
  readonly store: StoreApi<S>;
  readonly client: Client;
  readonly app: string;
  readonly inbox: Inbox;
  abstract readonly words: Words;
  protected readonly uuid: () => string;
  protected readonly now: () => Date;
  readonly #schedule: Schedule;
  readonly #watches = new Map<string, Watch>();
  /** By session: the number its log had when it was opened. Up to there it is loading. */
  readonly #targets = new Map<string, number>();
  readonly #outboxes = new Map<string, Outbox>();
  readonly #keys = new Map<string, string>();
  /** Turns whose end was recorded. */
  readonly #written = new Set<string>();
  /** By session that was read from its last turns on: what was known of it then. */
  readonly #begun = new Map<string, Begun>();
  /** By session: the transcript that was looked at last. Text in flight leaves it as it is. */
  readonly #looked = new Map<string, unknown>();
  /** By session: the interactions that were open when it was looked at last. */
  readonly #waiting = new Map<string, string>();
  /** How many pages of the list are shown. */
  #pages = 1;
  /** The reading of the list that counts: the last one that was begun. */
  #reading = 0;
  /** By session that the server does not have yet: the mode it will begin with. */
  readonly #modes = new Map<string, PermissionMode>();

  constructor(deps: ChatDeps & { app: string }, own: Omit<S, keyof ChatState>, known: Record<string, Known> = {}) {
    this.client = deps.client;
    this.app = deps.app;
    this.uuid = deps.uuid ?? newUUID;
    this.now = deps.now ?? (() => new Date());
    this.#schedule = deps.schedule ?? perFrame;
    this.inbox = new Inbox(deps.client);
    const state: ChatState = { app: undefined, known, running: new Set(), moreSessions: "none", opened: this.#fresh(this.uuid()), problem: undefined };
    this.store = createStore<S>(() => ({ ...own, ...state }) as unknown as S);
  }

  protected get state(): S {
    return this.store.getState();
  }

  protected set(part: Partial<ChatState>): void {
    this.store.setState(part as Partial<S>);
  }

  // What a page keeps of its sessions.

  /** The server's list, or nothing when it could not be read; what is returned is marked as running. */
  protected abstract listed(infos: readonly SessionInfo[] | undefined): void;
  /** The exchanges that are kept here of a session, if any are. */
  protected abstract kept(id: string): Exchange[] | undefined;
  /** A session has come further: a message was sent in it, or a turn ended. */
  protected abstract wrote(id: string, exchanges: Exchange[]): void;
  /** What is known has changed. */
  protected abstract remember(known: Record<string, Known>): void;
  /** A session was deleted. */
  protected abstract dropped(id: string): void;

  #fresh(id: string): Opened {
    const mode = this.#modes.get(id);
    return {
      id,
      phase: "new",
      exchanges: [],
      keys: this.#keys,
      records: mode ? { ...noRecords, mode } : noRecords,
      older: "none",
      preview: "",
      usdBefore: 0,
      connection: undefined,
      error: undefined,
    };
  }

  #show(part: Partial<Opened>): void {
    this.set({ opened: { ...this.state.opened, ...part } });
  }

  /** Asks for the app and for what the server knows of its sessions. */
  async refresh(): Promise<void> {
    const app = this.client.app(this.app).then(
      (app) => this.set({ app }),
      () => undefined, // the page works without its examples; sending says what is wrong
    );
    await Promise.all([app, this.refreshList()]);
  }

  async refreshList(): Promise<void> {
    const reading = ++this.#reading;
    const infos: SessionInfo[] = [];
    let cursor = "";
    try {
      for (let page = 0; page < this.#pages && (page === 0 || cursor !== ""); page++) {
        const { sessions, next } = await this.client.sessions(this.app, cursor);
        infos.push(...sessions);
        cursor = next;
      }
    } catch {
      if (reading !== this.#reading) return;
      if (this.state.moreSessions === "reading") {
        this.#pages--;
        this.set({ moreSessions: "failed" });
      }
      this.listed(undefined);
      return;
    }
    if (reading !== this.#reading) return;
    this.listed(infos);
    this.set({ moreSessions: cursor === "" ? "none" : "more" });
    const running = new Set(infos.filter((i) => i.turn && isOpen(i.turn.status)).map(keyOf));
    for (const [id, w] of this.#watches) {
      if (openTurn(w)) running.add(id);
      else running.delete(id);
    }
    this.set({ running });
  }

  /** Reads one page more of the list of sessions. */
  async furtherSessions(): Promise<void> {
    const { moreSessions: more } = this.state;
    if (more !== "more" && more !== "failed") return;
    this.#pages++;
    this.set({ moreSessions: "reading" });
    await this.refreshList();
  }

  newChat(): void {
    this.#leave();
    this.set({ opened: this.#fresh(this.uuid()), problem: undefined });
  }

  async open(id: string): Promise<void> {
    if (id === this.state.opened.id && this.state.opened.phase !== "failed") return;
    if (id !== this.state.opened.id) this.#leave();
    const watched = this.#watches.get(id);
    if (watched) {
      watched.resume();
      this.set({ opened: { ...this.#fresh(id), phase: "live" }, problem: undefined });
      this.#changed(id, watched);
      return;
    }
    const kept = this.kept(id);
    const exchanges = kept ?? [];
    this.set({ opened: { ...this.#fresh(id), phase: "loading", exchanges }, problem: undefined });
    try {
      if (!this.state.known[id]?.server) await this.#lookUp(id);
      const server = this.state.known[id]?.server;
      const last = server === undefined ? undefined : await this.client.window(server);
      if (this.state.opened.id !== id) return;
      if (last) {
        this.#watch(id, last);
        return;
      }
    } catch (cause) {
      if (this.state.opened.id !== id) return;
      const error = toApiError(cause);
      if (error.code !== "not_found") {
        this.#show({ phase: "failed", error });
        return;
      }
      this.#forget(id);
    }
    // Nobody is left to end an answer that was not whole.
    const still = exchanges.map((x): Exchange => (isOpen(x.standing) ? { ...x, standing: "completed", cut: true } : x));
    this.#show({ phase: kept ? "local" : "new", exchanges: still });
  }

  async #lookUp(id: string): Promise<void> {
    let info: SessionInfo | undefined;
    for (let cursor = ""; !info; ) {
      const { sessions, next } = await this.client.sessions(this.app, cursor);
      info = sessions.find((i) => keyOf(i) === id || i.id === id);
      if (next === "") break;
      cursor = next;
    }
    if (info) this.#know(id, { server: info.id, ...(info.title && { title: info.title }) });
  }

  #know(id: string, known: Known): void {
    const have = this.state.known[id];
    if (have && have.server === known.server && have.title === known.title) return;
    this.set({ known: { ...this.state.known, [id]: known } });
    this.remember(this.state.known);
  }

  #forget(id: string): void {
    const { [id]: _, ...known } = this.state.known;
    this.set({ known });
    this.remember(known);
  }

  /** Follows a session from where its last turns begin. */
  #watch(id: string, last: SessionWindow): Watch {
    const have = this.#watches.get(id);
    if (have) return have;
    const { session } = last;
    this.#targets.set(id, session.version);
    this.#begun.set(id, { preview: session.preview ?? "", usd: session.totals.usage.usd ?? 0, version: session.version });
    const w = watch(this.client, session.id, beginAt(last), (w) => this.#changed(id, w), this.#schedule);
    this.#watches.set(id, w);
    return w;
  }

  async #watched(id: string, server: string): Promise<Watch> {
    return this.#watches.get(id) ?? this.#watch(id, await this.client.window(server));
  }

  /** Reads older turns of the open session. */
  async older(): Promise<void> {
    const { id, older } = this.state.opened;
    const w = this.#watches.get(id);
    if (!w || older === "reading" || older === "none") return;
    this.#show({ older: "reading" });
    try {
      await w.older();
    } catch {
      // What went wrong is not the reader's business: it is tried again when it is scrolled to again.
      if (this.state.opened.id === id) this.#show({ older: "failed" });
    }
  }

  /** Lets go of the open session's connection, unless an answer is on its way and there is room. */
  #leave(): void {
    const id = this.state.opened.id;
    const w = this.#watches.get(id);
    if (w && (!openTurn(w) || this.#watches.size > mostWatched)) this.#unwatch(id);
  }

  #unwatch(id: string): void {
    this.#watches.get(id)?.close();
    this.#watches.delete(id);
    this.#targets.delete(id);
    this.#looked.delete(id);
    this.#begun.delete(id);
    this.#waiting.delete(id);
  }

  /** The log of a session, or the connection to it, has gone on. */
  #changed(id: string, w: Watch): void {
    const { transcript, records, live } = w.view;
    const shown = this.state.opened.id === id;
    const outbox = this.#outboxes.get(id);
    if (outbox) {
      const ours =
        transcript.turns?.find((t) => t.id === outbox.turn) ??
        turnsAfter(transcript.turns, outbox.before).find((t) => t.message === outbox.text);
      if (ours) {
        if (!this.#keys.has(ours.id)) this.#keys.set(ours.id, outbox.key);
        this.#outboxes.delete(id);
        if (outbox.stop && !outbox.turn) void this.#cancel(ours.id);
      }
    }
    if (w.connection.state === "refused") {
      this.#unwatch(id);
      if (!shown) return;
      const { error } = w.connection;
      if (error.code === "not_found") {
        this.#forget(id);
        this.#show({ phase: "local", connection: undefined });
      } else {
        this.#show({ phase: "failed", connection: undefined, error });
      }
      return;
    }
    const loading = transcript.seq < (this.#targets.get(id) ?? 0);
    if (loading) {
      if (shown) this.#show({ connection: w.connection });
      return;
    }
    const exchanges = exchangesOf(transcript.turns, live, records);
    const begun = this.#begun.get(id);
    if (transcript.seq > 0 && this.#looked.get(id) !== transcript) {
      this.#looked.set(id, transcript);
      this.#know(id, { server: w.id, ...(transcript.title && { title: transcript.title }) });
      this.#record(id, exchanges);
      this.#mark(id, openTurn(w) !== undefined);
      this.#askedNow(id, records);
      if (!shown && !openTurn(w)) this.#unwatch(id); // it has ended in the background
    }
    if (!shown) return;
    this.#show({
      phase: transcript.status === "ended" || transcript.status === "expired" ? "ended" : "live",
      connection: w.connection,
      error: undefined,
      records,
      exchanges: this.#withOutbox(id, exchanges),
      older: w.view.from === 0 ? "none" : this.state.opened.older === "failed" ? "failed" : "more",
      preview: begun?.preview ?? "",
      usdBefore: begun && w.view.from > 0 ? Math.max(0, begun.usd - spentUpTo(transcript.turns, records, begun.version)) : 0,
    });
  }

  /** Tells the inbox when something was asked or answered; what was open all along it has read itself. */
  #askedNow(id: string, records: Records): void {
    const waiting = [...records.asked.values()].flat().filter(isWaiting).map((a) => a.interaction.id).join();
    const before = this.#waiting.get(id);
    this.#waiting.set(id, waiting);
    if (before === undefined ? waiting !== "" : before !== waiting) void this.inbox.refresh();
  }

  #mark(id: string, open: boolean): void {
    if (this.state.running.has(id) === open) return;
    const running = new Set(this.state.running);
    if (open) running.add(id);
    else running.delete(id);
    this.set({ running });
  }

  #withOutbox(id: string, exchanges: Exchange[]): Exchange[] {
    const o = this.#outboxes.get(id);
    if (!o) return exchanges;
    const sending: Exchange = {
      id: o.key,
      question: o.text,
      standing: o.error ? "unsent" : "sending",
      stopping: o.stop ?? false,
      steps: [],
      answer: "",
      cut: false,
      ...(o.error && { error: { code: o.error.code, message: o.error.message, hint: o.error.hint }, retryAt: o.error.retryAt }),
      models: [],
      attempt: 1,
      asked: [],
    };
    return [...exchanges, sending];
  }

  /** Hands on what has ended since the last time, and what is not kept here yet. */
  #record(id: string, exchanges: Exchange[]): void {
    const ended = exchanges.filter((x) => !isOpen(x.standing));
    const news = ended.filter((x) => !this.#written.has(x.id + x.standing));
    if (news.length === 0) return;
    for (const x of news) this.#written.add(x.id + x.standing);
    this.wrote(id, exchanges);
  }

  /** Sends a message in the open session. While its turn waits for a human, "steer" is a no with these words, and "enqueue" comes after it. */
  async send(text: string, busy?: BusyMode): Promise<void> {
    const { id, exchanges } = this.state.opened;
    const before = this.#watches.get(id)?.view.transcript.turns?.at(-1)?.id;
    this.#outboxes.set(id, { key: this.uuid(), text, busy, before });
    this.set({ problem: undefined });
    this.#show({ exchanges: this.#withOutbox(id, exchanges.filter((x) => x.standing !== "unsent")) });
    await this.#deliver(id);
  }

  /** Sends the message again that did not get through. */
  async sendAgain(): Promise<void> {
    const { id } = this.state.opened;
    const o = this.#outboxes.get(id);
    if (!o) return;
    delete o.error;
    this.#redraw(id);
    await this.#deliver(id);
  }

  /** Takes the message back that did not get through, and returns it. */
  takeBack(): string {
    const { id } = this.state.opened;
    const text = this.#outboxes.get(id)?.text ?? "";
    this.#outboxes.delete(id);
    this.#redraw(id);
    return text;
  }

  #redraw(id: string): void {
    if (this.state.opened.id !== id) return;
    const w = this.#watches.get(id);
    const exchanges = w
      ? exchangesOf(w.view.transcript.turns, w.view.live, w.view.records)
      : this.state.opened.exchanges.filter((x) => x.standing !== "sending" && x.standing !== "unsent");
    this.#show({ exchanges: this.#withOutbox(id, exchanges) });
  }

  /** The server's id of a session, which is made if it is new. */
  async #server(id: string): Promise<string> {
    const have = this.state.known[id]?.server;
    if (have !== undefined) return have;
    const mode = this.#modes.get(id);
    const { id: server } = await this.client.createSession(this.app, id, mode && { mode });
    this.#know(id, { server });
    this.#modes.delete(id);
    return server;
  }

  async #deliver(id: string): Promise<void> {
    const o = this.#outboxes.get(id);
    if (!o) return;
    try {
      const server = await this.#server(id);
      const w = await this.#watched(id, server);
      if (this.#outboxes.get(id) !== o) return;
      const turn = await this.client.send(server, o.text, o.key, o.busy);
      o.turn = turn.id;
      if (o.stop) await this.#cancel(turn.id);
      // In the list from now on, so that a reload in the middle of the first answer finds it.
      this.wrote(id, this.#withOutbox(id, exchangesOf(w.view.transcript.turns, w.view.live, w.view.records)));
      this.#changed(id, w);
    } catch (cause) {
      const error = toApiError(cause);
      if (error.code === "not_found") this.#forget(id); // deleted elsewhere: the next attempt makes it anew
      o.error = error;
      this.#redraw(id);
    }
  }

  async stop(): Promise<void> {
    const { id } = this.state.opened;
    const w = this.#watches.get(id);
    const turn = w && openTurn(w);
    if (turn) {
      await this.#cancel(turn);
      return;
    }
    const o = this.#outboxes.get(id);
    if (!o) return;
    o.stop = true;
    this.#redraw(id);
  }

  async #cancel(turn: string): Promise<void> {
    // A turn that ended meanwhile is a conflict, and what was wanted.
    await this.attempt(this.client.cancel(turn, "stopped on the page"), ["conflict"]);
  }

  async retry(turn: string): Promise<void> {
    await this.attempt(this.client.retry(turn));
  }

  async resume(turn: string): Promise<void> {
    await this.attempt(this.client.resume(turn));
  }

  /** Answers an interaction of any session. Throws an ApiError, which belongs to the card; what holds, the log says. */
  async answer(interaction: string, answer: Answer): Promise<void> {
    try {
      await this.client.answer(interaction, answer);
    } catch (cause) {
      throw toApiError(cause);
    } finally {
      void this.inbox.refresh();
    }
  }

  /** Changes how much the open session asks before it acts; a new one begins so. */
  async setMode(mode: PermissionMode): Promise<void> {
    const { id, records } = this.state.opened;
    const server = this.state.known[id]?.server;
    if (server !== undefined) {
      await this.attempt(this.client.update(server, { mode }));
      return;
    }
    this.#modes.set(id, mode);
    this.#show({ records: { ...records, mode } });
  }

  /** Revokes what was granted for the open session, except for these. Reports whether that was done. */
  async keepRules(rules: readonly Rule[]): Promise<boolean> {
    return this.attempt(this.#server(this.state.opened.id).then((server) => this.client.update(server, { rules })));
  }

  /** Replaces what every prompt of the open session holds. Reports whether that was done. */
  async setPins(pins: readonly Pin[]): Promise<boolean> {
    const { id } = this.state.opened;
    return this.attempt(
      this.#server(id).then(async (server) => {
        await this.client.update(server, { pins });
        await this.#watched(id, server);
      }),
    );
  }

  async rename(id: string, title: string): Promise<void> {
    const have = this.state.known[id];
    if (have?.server) {
      const before = have.title;
      this.#know(id, { ...have, title }); // at once; taken back if refused
      const done = await this.attempt(this.client.update(have.server, { title }));
      if (!done) this.#know(id, { server: have.server, ...(before && { title: before }) });
    } else {
      this.#know(id, { title });
    }
  }

  /** Deletes a session on the server and here. */
  async remove(id: string): Promise<void> {
    if (!this.state.known[id]?.server && !(await this.attempt(this.#lookUp(id)))) return;
    const server = this.state.known[id]?.server;
    if (server !== undefined && !(await this.attempt(this.client.remove(server), ["not_found"]))) return;
    this.#unwatch(id);
    this.#outboxes.delete(id);
    this.#forget(id);
    this.#mark(id, false);
    this.dropped(id);
    if (this.state.opened.id === id) this.newChat();
    void this.inbox.refresh();
  }

  /** Waits for an action; what goes wrong is shown, unless its code says that it is as good as done. */
  protected async attempt(action: Promise<unknown>, fine: string[] = []): Promise<boolean> {
    try {
      await action;
      this.set({ problem: undefined });
      return true;
    } catch (cause) {
      const problem = toApiError(cause);
      if (fine.includes(problem.code)) return true;
      this.set({ problem });
      return false;
    }
  }

  dismiss(): void {
    this.set({ problem: undefined });
  }

  /** Tries at once what waits for its next attempt. */
  reconnect(): void {
    for (const w of this.#watches.values()) w.retry();
    if (this.state.opened.phase === "failed") void this.open(this.state.opened.id);
  }

  /** The tab is hidden, or shown again: one that nobody looks at and in which nothing happens needs no connection. */
  visible(yes: boolean): void {
    for (const w of this.#watches.values()) {
      if (yes) w.resume();
      else if (!openTurn(w)) w.pause();
    }
    this.inbox.visible(yes);
    if (yes) {
      this.reconnect();
      void this.refreshList();
    }
  }

  close(): void {
    for (const id of [...this.#watches.keys()]) this.#unwatch(id);
    this.inbox.close();
  }
}

/** The turns behind one; all of them, if it is not there. */
function turnsAfter(turns: readonly TurnView[] | null, id: string | undefined): readonly TurnView[] {
  return (turns ?? []).slice((turns ?? []).findIndex((t) => t.id === id) + 1);
}

/** What those turns cost that had ended at an event. */
function spentUpTo(turns: readonly TurnView[] | null, records: Records, version: number): number {
  let usd = 0;
  for (const t of turns ?? []) if ((records.events.get(t.id)?.at(-1)?.seq ?? 0) <= version) usd += t.usage?.usd ?? 0;
  return usd;
}

/** The turn that runs or waits for an answer; without one, the first in the queue. */
function openTurn(w: Watch): string | undefined {
  const turns = w.view.transcript.turns ?? [];
  return (turns.findLast((t) => t.status === "running" || t.status === "waiting" || t.resumes) ?? turns.find((t) => t.status === "pending"))?.id;
}
