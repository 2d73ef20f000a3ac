// The logic of a page with a chat: which session is open, what is being sent, asked and
// answered. Pages differ in where they keep the list of sessions; subclasses handle that.
// Everything here runs without a browser.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type AppInfo, type Approval, type ApprovalState, type Client, type ResourceList, type SessionWindow, type SlashCommand } from "../api/client.ts";
import type { Answer, Attachment, BusyMode, EntityRef, PermissionMode, Pin, ResourceRef, RewindResult, RewindWhat, Rule, SessionInfo } from "../api/types.gen.ts";
import { exchangesOf, isOpen, type Exchange } from "../session/exchange.ts";
import { Inbox } from "../session/inbox.ts";
import { beginAt } from "../session/live.ts";
import { isWaiting, type Records } from "../session/records.ts";
import { perFrame, watch, type Schedule, type Watch } from "../session/session.ts";
import { keyOf, type ChatState, type Draft, type Known, type Opened, type Words } from "./state.ts";
import { goesOn, openTurn, spentUpTo } from "./open-turn.ts";
import { isOfMessage, isRefusal, sendingOf, stopped, turnOf, type Outbox } from "./outbox.ts";
import { newUUID } from "./uuid.ts";
import { Wishes } from "./wishes.ts";

/** The session's index row at the time its log began to be read. */
interface Begun {
  /** Its first message. */
  preview: string;
  /** Its cost up to this event. */
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

/**
 * Sessions that continue in the background are followed until they end. With the open one, they
 * are as many as there are slots for streams.
 */
const mostWatched = 2;

/** About so many events of a session are read at once, the newest first. */
const mostEvents = 500;

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
  /** By session: the length of its log when it was opened. Until that is reached, it is loading. */
  readonly #targets = new Map<string, number>();
  readonly #outboxes = new Map<string, Outbox>();
  readonly #keys = new Map<string, string>();
  /** Turns whose end was saved. */
  readonly #written = new Set<string>();
  /** By session that was read from its last turns: what was known of it then. */
  readonly #begun = new Map<string, Begun>();
  /** By session: the transcript that was examined last. Text in flight does not change it. */
  readonly #looked = new Map<string, unknown>();
  /** By session: the interactions that were open at the last examination. */
  readonly #waiting = new Map<string, string>();
  #hidden = false;
  #forking = false;
  /** How many pages of the list are shown. */
  #pages = 1;
  /** The request for the app under way. */
  #appAway: Promise<void> | undefined;
  /** Number of the latest read of the list; results of earlier reads are ignored. */
  #reading = 0;
  readonly #wishes = new Wishes();
  /** The workspace of new sessions; "" is the app's default. */
  workspace = "";
  /** Sessions that were made for a first message which the server has not accepted yet. */
  readonly #made = new Set<string>();

  constructor(deps: ChatDeps & { app: string }, own: Omit<S, keyof ChatState>, known: Record<string, Known> = {}) {
    this.client = deps.client;
    this.app = deps.app;
    this.uuid = deps.uuid ?? newUUID;
    this.now = deps.now ?? (() => new Date());
    this.#schedule = deps.schedule ?? perFrame;
    this.inbox = new Inbox(deps.client);
    const state: ChatState = { app: undefined, known, running: new Set(), moreSessions: "none", opened: this.#fresh(this.uuid()), refused: undefined, unread: undefined, problem: undefined };
    this.store = createStore<S>(() => ({ ...own, ...state }) as unknown as S);
  }

  protected get state(): S {
    return this.store.getState();
  }

  protected set(part: Partial<ChatState>): void {
    this.store.setState(part as Partial<S>);
  }

  // What a page keeps about its sessions.

  /** Receives the server's list, or nothing if it could not be read; marks the returned sessions as running. */
  protected abstract listed(infos: readonly SessionInfo[] | undefined): void;
  /** The exchanges of a session that are kept here, if any. */
  protected abstract kept(id: string): Exchange[] | undefined;
  /** A session has progressed: a message was sent in it, or a turn ended. */
  protected abstract wrote(id: string, exchanges: Exchange[]): void;
  /** The known ids and names have changed. */
  protected abstract remember(known: Record<string, Known>): void;
  /** A session was deleted. */
  protected abstract dropped(id: string): void;

  #fresh(id: string, app?: AppInfo): Opened {
    return {
      id,
      phase: "new",
      exchanges: [],
      keys: this.#keys,
      records: this.#wishes.records(id, app?.mode),
      older: "none",
      preview: "",
      usdBefore: 0,
      restored: [],
      rewinds: [],
      rewinding: false,
      connection: undefined,
      error: undefined,
      back: undefined,
    };
  }

  #show(part: Partial<Opened>): void {
    this.set({ opened: { ...this.state.opened, ...part } });
  }

  /** Requests the app and the server's sessions. */
  async refresh(): Promise<void> {
    await Promise.all([this.refreshApp(), this.refreshList()]);
  }

  /**
   * Reads the app, whose files may have changed: at the start, when somebody comes back to the page,
   * after each turn, and every now and then (follow.ts). Nothing announces a change.
   */
  async refreshApp(): Promise<void> {
    if (this.#appAway) return this.#appAway;
    this.#appAway = this.client.app(this.app).then(
      (app) => {
        const same = JSON.stringify(app) === JSON.stringify(this.state.app);
        this.set({ ...(!same && { app }), refused: undefined, unread: undefined });
        const { id, phase, records } = this.state.opened;
        if (phase === "new" && app.mode && !this.#wishes.of(id).mode) this.#show({ records: { ...records, mode: app.mode } });
      },
      (cause: unknown) => {
        // The page works without its examples; but an app that is not served takes no message.
        const error = toApiError(cause);
        this.set(error.code === "not_found" ? { refused: error, unread: undefined } : { unread: error });
      },
    );
    await this.#appAway;
    this.#appAway = undefined;
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
    const running = new Set(infos.filter((i) => i.turn && isOpen(i.turn.status) && !i.held).map(keyOf));
    for (const [id, w] of this.#watches) {
      if (goesOn(w)) running.add(id);
      else running.delete(id);
    }
    this.set({ running });
  }

  /** Reads one more page of the list of sessions. */
  async furtherSessions(): Promise<void> {
    const { moreSessions: more } = this.state;
    if (more !== "more" && more !== "failed") return;
    this.#pages++;
    this.set({ moreSessions: "reading" });
    await this.refreshList();
  }

  newChat(): void {
    this.#leave();
    this.set({ opened: this.#fresh(this.uuid(), this.state.app), problem: undefined });
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
      const last = server === undefined ? undefined : await this.client.window(server, undefined, mostEvents);
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
    // An incomplete answer will not be finished.
    const still = exchanges.map((x): Exchange => (isOpen(x.standing) ? { ...x, standing: "completed", cut: true } : x));
    this.#show({ phase: kept ? "local" : "lost", exchanges: still });
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

  /** Follows a session from the start of its last turns. */
  #watch(id: string, last: SessionWindow): Watch {
    const have = this.#watches.get(id);
    if (have) return have;
    const { session } = last;
    this.#targets.set(id, session.version);
    this.#begun.set(id, { preview: session.preview ?? "", usd: session.totals.usage.usd ?? 0, version: session.version });
    const w = watch(this.client, session.id, beginAt(last), (w) => this.#changed(id, w), this.#schedule, mostEvents);
    this.#watches.set(id, w);
    if (this.#hidden) w.pause();
    return w;
  }

  async #watched(id: string, server: string): Promise<Watch> {
    return this.#watches.get(id) ?? this.#watch(id, await this.client.window(server, undefined, mostEvents));
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
      // No error for the reader: it is tried again at the next scroll to the top.
      if (this.state.opened.id === id) this.#show({ older: "failed" });
    }
  }

  /** Reads earlier steps of a turn of the open session. Throws an ApiError. */
  async earlier(turn: string): Promise<void> {
    try {
      await this.#watches.get(this.state.opened.id)?.earlier(turn);
    } catch (cause) {
      throw toApiError(cause);
    }
  }

  /** Closes the open session's connection, unless an answer is in progress and there is room for the connection. */
  #leave(): void {
    const id = this.state.opened.id;
    const w = this.#watches.get(id);
    if (w && (!goesOn(w) || this.#watches.size > mostWatched)) this.#unwatch(id);
  }

  #unwatch(id: string): void {
    this.#watches.get(id)?.close();
    this.#watches.delete(id);
    this.#targets.delete(id);
    this.#looked.delete(id);
    this.#begun.delete(id);
    this.#waiting.delete(id);
  }

  /** The log of a session, or its connection, has changed. */
  #changed(id: string, w: Watch): void {
    const { transcript, records, live } = w.view;
    const shown = this.state.opened.id === id;
    const outbox = this.#outboxes.get(id);
    if (outbox) {
      const ours = turnOf(outbox, transcript.turns);
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
      this.#mark(id, goesOn(w));
      this.#askedNow(id, records);
      if (!shown && !goesOn(w)) this.#unwatch(id); // it has ended in the background
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
      restored: transcript.restored ?? [],
      rewinds: transcript.rewinds?.filter((r) => !r.rewound && !r.undoes) ?? [],
      rewinding: transcript.rewinding ?? false,
      usdBefore: begun && w.view.from > 0 ? Math.max(0, begun.usd - spentUpTo(transcript.turns, records, begun.version)) : 0,
    });
  }

  /** Tells the inbox when something was asked or answered; the inbox itself has read what was already open. */
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
    if (!open) void this.refreshApp();
  }

  #withOutbox(id: string, exchanges: Exchange[]): Exchange[] {
    const o = this.#outboxes.get(id);
    return o ? [...exchanges, sendingOf(o)] : exchanges;
  }

  /** Saves the exchanges that have ended since the last call and are not kept here yet. */
  #record(id: string, exchanges: Exchange[]): void {
    const ended = exchanges.filter((x) => !isOpen(x.standing));
    const news = ended.filter((x) => !this.#written.has(x.id + x.standing));
    if (news.length === 0) return;
    for (const x of news) this.#written.add(x.id + x.standing);
    this.wrote(id, exchanges);
  }

  /**
   * Sends a message in the open session. While its turn waits for a human, "steer" declines with
   * these words, and "enqueue" queues the message after the turn.
   */
  async send(text: string, busy?: BusyMode, attached: readonly ResourceRef[] = [], files: readonly Attachment[] = []): Promise<void> {
    const { id, exchanges } = this.state.opened;
    const before = this.#watches.get(id)?.view.transcript.turns?.at(-1)?.id;
    this.#outboxes.set(id, { key: this.uuid(), text, attached, files, busy, before });
    this.set({ problem: undefined });
    this.#show({ back: undefined, exchanges: this.#withOutbox(id, exchanges.filter((x) => x.standing !== "unsent")) });
    await this.#deliver(id);
  }

  /** Gives a file to the open session, which is made if it is new. Throws an ApiError. */
  async attach(file: File, signal: AbortSignal, onSent?: (bytes: number) => void): Promise<Attachment> {
    const { id } = this.state.opened;
    try {
      return await this.client.attach(await this.#server(id), file, signal, onSent);
    } catch (cause) {
      const error = toApiError(cause);
      if (error.code !== "not_found") throw error;
      this.#forget(id); // deleted elsewhere: it is made again
      return this.client.attach(await this.#server(id), file, signal, onSent);
    }
  }

  /** Sends the failed message again. */
  async sendAgain(): Promise<void> {
    const { id } = this.state.opened;
    const o = this.#outboxes.get(id);
    if (!o) return;
    delete o.error;
    o.stop = false;
    this.#redraw(id);
    await this.#deliver(id);
  }

  /** Removes the failed message and returns it. */
  takeBack(): Draft {
    const { id } = this.state.opened;
    const { text = "", attached = [], files = [] } = this.#outboxes.get(id) ?? {};
    this.#outboxes.delete(id);
    this.#redraw(id);
    return { text, attached, ...(files.length > 0 && { files }) };
  }

  #redraw(id: string): void {
    if (this.state.opened.id !== id) return;
    const w = this.#watches.get(id);
    const exchanges = w
      ? exchangesOf(w.view.transcript.turns, w.view.live, w.view.records)
      : this.state.opened.exchanges.filter((x) => x.standing !== "sending" && x.standing !== "unsent");
    this.#show({ exchanges: this.#withOutbox(id, exchanges) });
  }

  /** The server's id of a session. A new session is created on the server, and stays there. */
  async #server(id: string): Promise<string> {
    const server = await this.#make(id);
    this.#settle(id);
    return server;
  }

  /** Likewise, but until it is settled, the session can be made again as it was. */
  async #make(id: string): Promise<string> {
    // A session that is still being opened is there already, unless nobody knows it.
    if (!this.state.known[id]?.server && this.state.opened.id === id && this.state.opened.phase === "loading") await this.#lookUp(id);
    const have = this.state.known[id]?.server;
    if (have !== undefined) return have;
    const { entities } = this.#wishes.of(id);
    const { id: server } = await this.client.createSession(this.app, id, { ...this.#wishes.request(id), ...(this.workspace && { workspace: this.workspace }) });
    this.#know(id, { server });
    this.#made.add(id);
    const since = this.#wishes.of(id).entities;
    if (since !== entities) await this.attempt(this.client.update(server, { attached_entities: [...(since ?? [])] })); // it was changed meanwhile
    return server;
  }

  #settle(id: string): void {
    this.#made.delete(id);
    this.#wishes.settle(id);
  }

  async #deliver(id: string): Promise<void> {
    const o = this.#outboxes.get(id);
    if (!o) return;
    const away = (o.away = new AbortController());
    try {
      const server = await this.#make(id);
      const w = await this.#watched(id, server);
      if (this.#outboxes.get(id) !== o) return;
      const turn = await this.client.send(server, o.text, o.key, { busy: o.busy, resources: o.attached, attachments: o.files.map((f) => f.id), signal: away.signal });
      o.turn = turn.id;
      this.#settle(id);
      w.retry(); // at once, if it polls
      if (o.stop) await this.#cancel(turn.id);
      // Listed from now on, so that a reload in the middle of the first answer finds it.
      this.wrote(id, this.#withOutbox(id, exchangesOf(w.view.transcript.turns, w.view.live, w.view.records)));
      this.#changed(id, w);
    } catch (cause) {
      const error = away.signal.aborted ? stopped : toApiError(cause);
      if (isRefusal(error) && this.#made.has(id)) await this.#unmake(id);
      else if (error.code === "not_found") this.#forget(id); // deleted elsewhere: the next attempt makes it again
      // It would be refused again as it is, so it goes back into the box.
      if ((o.attached.length + o.files.length > 0 ? isOfMessage(error) : error.code === "too_large") && this.state.opened.id === id) {
        const back = this.takeBack();
        this.#show({ back });
        this.set({ problem: error });
        return;
      }
      o.error = error;
      this.#redraw(id);
    }
  }

  /** Deletes a session whose first message was refused, unless something else was done in it meanwhile. */
  async #unmake(id: string): Promise<void> {
    const server = this.state.known[id]?.server;
    if (server === undefined) return;
    try {
      const { preview, title, turn } = await this.client.session(server);
      if (preview || title || turn) return this.#settle(id);
      if (!this.#made.has(id)) return;
      this.#unwatch(id);
      await this.client.remove(server);
    } catch {
      // If it is still there, the next message goes to it: to make it again returns it.
    }
    this.#unwatch(id);
    this.#forget(id);
    this.#made.delete(id);
    if (this.state.opened.id === id) this.set({ opened: { ...this.#fresh(id, this.state.app), exchanges: this.state.opened.exchanges } });
    void this.refreshList();
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
    // A server may take long to read what is attached. Should the message have been accepted all the
    // same, its turn is cancelled when the log has it.
    if (o.attached.length > 0) o.away?.abort();
  }

  async #cancel(turn: string): Promise<void> {
    // If the turn has ended meanwhile, the server reports a conflict, and nothing is left to cancel.
    await this.attempt(this.client.cancel(turn, "stopped on the page"), ["conflict"]);
  }

  async retry(turn: string): Promise<void> {
    await this.attempt(this.client.retry(turn));
  }

  async resume(turn: string): Promise<void> {
    await this.attempt(this.client.resume(turn));
  }

  /** Copies a session, or the open one up to the end of a turn, and opens the copy. The original stays as it is. */
  async fork(id: string, turn?: string): Promise<void> {
    const server = this.state.known[id]?.server;
    if (server === undefined || this.#forking) return;
    const { records } = this.state.opened;
    const at = turn === undefined ? undefined : records.events.get(turn)?.at(-1)?.seq;
    const made = this.client.fork(server, at, this.uuid());
    this.#forking = true;
    try {
      if (!(await this.attempt(made))) return;
      const info = await made;
      this.#know(keyOf(info), { server: info.id, ...(info.title && { title: info.title }) });
      if (this.state.opened.id === id || turn === undefined) await this.open(keyOf(info));
      await this.refreshList();
    } finally {
      this.#forking = false;
    }
  }

  /**
   * Answers an interaction of any session. Throws an ApiError, which belongs on the card; the
   * log says which answer counts.
   */
  async answer(interaction: string, answer: Answer, credentials?: Record<string, string>): Promise<void> {
    try {
      await this.client.answer(interaction, answer, credentials);
    } catch (cause) {
      throw toApiError(cause);
    } finally {
      for (const w of this.#watches.values()) w.retry(); // at once, if they poll
      void this.inbox.refresh();
    }
  }

  /** Takes the open session back, or without a version says what that would do. Throws an ApiError. */
  async rewind(where: { turn: string } | { undo: number }, what: RewindWhat | undefined, version: number | undefined): Promise<RewindResult> {
    const { id } = this.state.opened;
    try {
      const request = { ...where, ...(what && { what }), ...(version === undefined ? { preview: true } : { expected_version: version }) };
      return await this.client.rewind(await this.#server(id), request, this.uuid());
    } catch (cause) {
      throw toApiError(cause);
    } finally {
      this.#watches.get(id)?.retry(); // at once, if it polls
    }
  }

  /** Changes how much the open session asks before it acts. For a new session, it is the initial mode. */
  async setMode(mode: PermissionMode): Promise<void> {
    const { id, records } = this.state.opened;
    const server = this.state.known[id]?.server;
    if (server !== undefined) {
      await this.attempt(this.client.update(server, { mode }));
      if (this.#made.has(id)) this.#wishes.add(id, { mode });
      return;
    }
    this.#wishes.add(id, { mode });
    this.#show({ records: { ...records, mode } });
  }

  /** The slash commands of the open session. If the server does not know it yet, they are those of a new one: looking makes no session. */
  async commands(): Promise<SlashCommand[]> {
    const server = this.state.known[this.state.opened.id]?.server;
    return server === undefined ? this.client.appCommands(this.app) : this.client.commands(server);
  }

  /** The resources that messages of the open session may have. As with commands, looking makes no session. */
  async resources(signal?: AbortSignal): Promise<ResourceList> {
    const server = this.state.known[this.state.opened.id]?.server;
    return server === undefined ? this.client.appResources(this.app, signal) : this.client.resources(server, signal);
  }

  /** What files of the user and of the open session's workspace would run. Empty for a session that the server does not know yet. */
  async approvals(signal?: AbortSignal): Promise<Approval[]> {
    const server = this.state.known[this.state.opened.id]?.server;
    return server === undefined ? [] : this.client.approvals(server, signal);
  }

  /** Decides about something that would run, as it was shown. Throws an ApiError. */
  async decide(shown: Approval, state: ApprovalState): Promise<void> {
    try {
      await this.client.decide(await this.#server(this.state.opened.id), shown, state);
    } catch (cause) {
      throw toApiError(cause);
    }
  }

  /** Changes which model answers in the open session; "" is the app's. For a new session, it is the initial model. */
  async setModel(model: string): Promise<void> {
    const { id, records } = this.state.opened;
    const server = this.state.known[id]?.server;
    if (server !== undefined) {
      await this.attempt(this.client.update(server, { model }));
      if (this.#made.has(id)) this.#wishes.add(id, { model });
      return;
    }
    this.#wishes.add(id, { model });
    this.#show({ records: { ...records, model } });
  }

  /** Changes what carries out the turns of the open session; "" is the app's choice. While a turn is open the server refuses it, and says so. */
  async setRuntime(runtime: string): Promise<void> {
    const { id, records } = this.state.opened;
    const server = this.state.known[id]?.server;
    if (server !== undefined) {
      const done = await this.attempt(this.client.update(server, { runtime }));
      if (done && this.#made.has(id)) this.#wishes.add(id, { runtime });
      return;
    }
    this.#wishes.add(id, { runtime });
    this.#show({ records: { ...records, runtime } });
  }

  /** Replaces the files that every prompt of the open session shows. For a new session, they are the initial ones. */
  async setEntities(entities: readonly EntityRef[]): Promise<boolean> {
    const { id, records } = this.state.opened;
    const server = this.state.known[id]?.server;
    if (server !== undefined) {
      const done = await this.attempt(this.client.update(server, { attached_entities: [...entities] }));
      if (done && this.#made.has(id)) this.#wishes.add(id, { entities });
      return done;
    }
    this.#wishes.add(id, { entities });
    this.#show({ records: { ...records, entities } });
    return true;
  }

  /** Revokes the rules granted for the open session, except these. Returns whether it succeeded. */
  async keepRules(rules: readonly Rule[]): Promise<boolean> {
    return this.attempt(this.#server(this.state.opened.id).then((server) => this.client.update(server, { rules })));
  }

  /** Replaces the pins of the open session, which every prompt contains. Returns whether it succeeded. */
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
    this.#settle(id);
    this.#forget(id);
    this.#mark(id, false);
    this.dropped(id);
    if (this.state.opened.id === id) this.newChat();
    void this.inbox.refresh();
  }

  /** Waits for an action and shows its error, unless the code is one of those that are as good as success. */
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

  /** Retries everything at once that waits for its next attempt. */
  reconnect(): void {
    if (this.state.unread) void this.refresh();
    for (const w of this.#watches.values()) w.retry();
    if (this.state.opened.phase === "failed") void this.open(this.state.opened.id);
  }

  /** The tab was hidden or shown. A hidden tab keeps no connection; once shown, it reads what it missed. */
  visible(yes: boolean): void {
    this.#hidden = !yes;
    for (const w of this.#watches.values()) {
      if (yes) w.resume();
      else w.pause();
    }
    this.inbox.visible(yes);
    if (yes) {
      this.reconnect();
      void this.refresh();
    }
  }

  close(): void {
    for (const id of [...this.#watches.keys()]) this.#unwatch(id);
    this.inbox.close();
  }
}
