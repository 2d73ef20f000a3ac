// The sessions of the chaos page. Their list belongs to this browser, as always.

import { Chat, type ChatDeps } from "../../chat/chat.ts";
import { keyOf, type ChatState, type Known } from "../../chat/state.ts";
import type { SessionInfo } from "../../api/types.gen.ts";
import type { Exchange } from "../../session/exchange.ts";
import { fromMessages, loadKnown, loadSessions, previewOf, saveKnown, saveSessions, sessionsKey, toMessages, withOlder, type Session } from "./storage.ts";

export interface ChaosState extends ChatState {
  /** This browser's list, newest first. */
  sessions: Session[];
}

const newestFirst = (a: Session, b: Session) => b.createdAt.localeCompare(a.createdAt);

export class Chaos extends Chat<ChaosState> {
  readonly words = { title: "ChaosContext", greeting: "What is the latest?", placeholder: "Ask about your project…", pin: "The launch is on 3 March." };
  readonly #storage: Storage;

  constructor(deps: ChatDeps & { storage: Storage }) {
    super({ ...deps, app: deps.app ?? "chaos" }, { sessions: loadSessions(deps.storage).sort(newestFirst) }, loadKnown(deps.storage));
    this.#storage = deps.storage;
  }

  /** Only names are taken from the server. */
  protected listed(infos: readonly SessionInfo[] | undefined): void {
    if (!infos) return;
    const mine = new Set(this.state.sessions.map((s) => s.id));
    const known = { ...this.state.known };
    for (const info of infos) {
      if (mine.has(keyOf(info))) known[keyOf(info)] = { server: info.id, ...(info.title && { title: info.title }) };
    }
    this.set({ known });
    this.remember(known);
  }

  protected kept(id: string): Exchange[] | undefined {
    const have = this.state.sessions.find((s) => s.id === id);
    return have && fromMessages(have.messages);
  }

  protected wrote(id: string, exchanges: Exchange[]): void {
    const first = exchanges[0];
    if (!first) return;
    // Read again, because another tab may have written since.
    const all = loadSessions(this.#storage);
    const have = all.find((s) => s.id === id);
    const session: Session = {
      id,
      createdAt: have?.createdAt ?? first.askedAt ?? this.now().toISOString(),
      preview: have?.preview ?? previewOf(this.state.opened.id === id && this.state.opened.preview ? this.state.opened.preview : first.question),
      messages: withOlder(have?.messages ?? [], toMessages(exchanges)),
    };
    const list = [session, ...all.filter((s) => s.id !== id)].sort(newestFirst);
    this.store.setState({ sessions: saveSessions(this.#storage, list) });
  }

  protected remember(known: Record<string, Known>): void {
    saveKnown(this.#storage, known);
  }

  protected dropped(id: string): void {
    const sessions = loadSessions(this.#storage)
      .filter((s) => s.id !== id)
      .sort(newestFirst);
    this.store.setState({ sessions: saveSessions(this.#storage, sessions) });
  }

  /** Another tab wrote the list. */
  storageChanged(key: string | null): void {
    if (key !== sessionsKey && key !== null) return;
    this.store.setState({ sessions: loadSessions(this.#storage).sort(newestFirst), known: loadKnown(this.#storage) });
  }
}
