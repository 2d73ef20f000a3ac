// A page whose list of sessions is the server's, because other clients create sessions too.

import type { SessionInfo } from "../api/types.gen.ts";
import { Chat, type ChatDeps } from "./chat.ts";
import { keyOf, type ChatState, type Words } from "./state.ts";
import type { Exchange } from "../session/exchange.ts";

export interface Entry {
  id: string;
  /** The server's id; undefined until it has created the session. */
  server?: string;
  name: string;
  time: string;
  begun?: string;
  waiting: number;
  /** The folder that it works in. */
  workspace: string;
}

export interface ListedState extends ChatState {
  /** Most recently changed first; undefined until the list was read. */
  entries: readonly Entry[] | undefined;
}

const listEvery = 30_000;

export class Listed extends Chat<ListedState> {
  readonly words: Words;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(deps: ChatDeps & { app: string }, words: Words) {
    super(deps, { entries: undefined });
    this.words = words;
  }

  /** Reads the list from time to time, because other clients create sessions too. */
  start(): void {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      if (typeof document === "undefined" || !document.hidden) void this.refreshList();
    }, listEvery);
  }

  override close(): void {
    clearInterval(this.#timer);
    super.close();
  }

  protected listed(infos: readonly SessionInfo[] | undefined): void {
    if (!infos) {
      this.store.setState((s) => ({ entries: s.entries ?? [] }));
      return;
    }
    const known = { ...this.state.known };
    for (const info of infos) known[keyOf(info)] = { server: info.id, ...(info.title && { title: info.title }) };
    const entries = infos.filter((i) => !i.parent || i.title || i.preview).map(entryOf);
    this.store.setState({ known, entries: merge(entries, this.state.entries ?? []) });
  }

  protected kept(): undefined {
    return undefined;
  }

  protected wrote(id: string, exchanges: Exchange[]): void {
    const first = exchanges[0];
    if (!first) return;
    const entries = this.state.entries ?? [];
    const have = entries.find((e) => e.id === id);
    const now: Entry = { waiting: 0, workspace: this.workspace, ...have, id, name: have?.name || previewOf(first.question), time: this.now().toISOString() };
    if (!have) this.store.setState({ entries: [now, ...entries] });
    void this.refreshList();
  }

  protected remember(): void {
    // The server remembers the session.
  }

  protected dropped(id: string): void {
    this.store.setState((s) => ({ entries: s.entries?.filter((e) => e.id !== id) }));
  }
}

export function entryOf(i: SessionInfo): Entry {
  return { id: keyOf(i), server: i.id, name: i.title || i.preview || "New conversation", time: i.updated_at, begun: i.created_at, waiting: i.waiting, workspace: i.workspace ?? "" };
}

/** The server's list, preceded by sessions created here that are not in it yet. */
function merge(list: readonly Entry[], before: readonly Entry[]): Entry[] {
  const there = new Set(list.map((e) => e.id));
  return [...before.filter((e) => !there.has(e.id) && e.server === undefined), ...list];
}

const previewOf = (text: string): string => [...text.trim().replace(/\s+/g, " ")].slice(0, 80).join("");
