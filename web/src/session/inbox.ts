// Everything that waits for an answer, over all sessions of the user. The server's list is
// requested from time to time while the page is visible, and at once when a followed session
// reports that something was asked or answered.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError, type Client, type InteractionRow } from "../api/client.ts";
import type { Interaction, SessionInfo } from "../api/types.gen.ts";

export interface InboxState {
  /** The open interactions, oldest first; undefined until they are known. */
  rows: readonly InteractionRow[] | undefined;
  /** The sessions they belong to, by id. */
  sessions: Readonly<Record<string, SessionInfo>>;
  error: ApiError | undefined;
}

/** Who has to act so that a session goes on. */
export type Awaited = "person" | "client";

/** Whom an interaction waits for. A call that is offered to clients waits for a client, not for a person. */
export const awaitedBy = (i: { kind: Interaction["kind"] }): Awaited => (i.kind === "client" ? "client" : "person");

/** Whom a session waits for. A person takes precedence; undefined if it waits for nobody. */
export function awaitedIn(rows: readonly InteractionRow[], session: string | undefined): Awaited | undefined {
  const own = rows.filter((r) => r.session === session).map(awaitedBy);
  return own.includes("person") ? "person" : own[0];
}

const pollEvery = 20_000;

export class Inbox {
  readonly store: StoreApi<InboxState> = createStore<InboxState>(() => ({ rows: undefined, sessions: {}, error: undefined }));
  readonly #client: Client;
  #running: Promise<void> | undefined;
  #again = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #polling = false;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Reads the list. If called again meanwhile, it reads once more afterwards. */
  refresh(): Promise<void> {
    if (this.#running) {
      this.#again = true;
      return this.#running;
    }
    const run = async () => {
      do {
        this.#again = false;
        await this.#read();
      } while (this.#again);
    };
    this.#running = run().finally(() => {
      this.#running = undefined;
      this.#schedule();
    });
    return this.#running;
  }

  async #read(): Promise<void> {
    try {
      const rows = (await this.#client.interactions()).filter((r) => r.open);
      const sessions: Record<string, SessionInfo> = {};
      const have = this.store.getState().sessions;
      await Promise.all(
        [...new Set(rows.map((r) => r.session))].map(async (id) => {
          // A session that was new may have a title by now.
          const known = have[id];
          const info = known?.title ? known : await this.#client.session(id).catch(() => known);
          if (info) sessions[id] = info;
        }),
      );
      this.store.setState({ rows, sessions, error: undefined });
    } catch (cause) {
      this.store.setState({ error: toApiError(cause) }); // the known rows stay
    }
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#polling) this.#timer = setTimeout(() => void this.refresh(), pollEvery);
  }

  /** Starts reading, and continues while the page is visible. */
  start(): void {
    this.#polling = true;
    void this.refresh();
  }

  visible(yes: boolean): void {
    if (yes === this.#polling) return;
    this.#polling = yes;
    if (yes) void this.refresh();
    else clearTimeout(this.#timer);
  }

  close(): void {
    this.#polling = false;
    clearTimeout(this.#timer);
  }
}
