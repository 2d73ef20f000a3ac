// What lets this page in at a server that asks who its user is: a key, or a sign-in.
//
// A key is sent in a header of every request, which only fetch can do; so streams are read from
// fetch bodies, and pictures and files are fetched too. It is kept as long as the tab is open, and
// goes nowhere else. A sign-in is a cookie that no script can read. The server tells our requests
// from those of other pages.

import { createStore, type StoreApi } from "zustand/vanilla";

import type { Fetch } from "./client.ts";
import { send } from "./upload.ts";

export interface Keyring {
  readonly store: StoreApi<{
    /** The server waits for a key. */
    asked: boolean;
    /** The key was rejected, or is no longer valid. */
    refused: boolean;
    /** The page was let in without a key, and is not any more: its sign-in ended. */
    ended: boolean;
  }>;
  /** Sends the key. A request without a valid key waits for one and is then repeated. */
  readonly fetch: Fetch;
  /** Whether requests need a header, so that a URL alone is not enough. */
  locked(): boolean;
  unlock(key: string): void;
}

type Storage_ = Pick<Storage, "getItem" | "setItem" | "removeItem">;

const name = "parley.key";

export function createKeyring(inner: Fetch = send, storage: () => Storage_ = () => sessionStorage): Keyring {
  let key = "";
  try {
    key = storage().getItem(name) ?? "";
  } catch {
    // No storage: the key is kept as long as the page is open.
  }
  const store = createStore(() => ({ asked: false, refused: false, ended: false }));
  let letIn = false; // without a key
  let waiting: (() => void)[] = [];

  const keep = (now: string) => {
    key = now;
    try {
      if (now === "") storage().removeItem(name);
      else storage().setItem(name, now);
    } catch {
      // As above.
    }
  };

  /** Resolves when the key differs from the one that was sent. */
  const another = (sent: string, signal: AbortSignal | null | undefined): Promise<void> => {
    if (key !== "" && key !== sent) return Promise.resolve();
    if (sent !== "" && key === sent) keep("");
    const { refused } = store.getState();
    store.setState({ asked: true, refused: refused || sent !== "", ended: letIn && sent === "" });
    return new Promise((done, failed) => {
      waiting.push(done);
      signal?.addEventListener("abort", () => failed(signal.reason), { once: true });
    });
  };

  return {
    store,
    locked: () => key !== "",
    fetch: async (input, init) => {
      for (;;) {
        const sent = key;
        const headers = new Headers(init?.headers);
        if (sent !== "") headers.set("Authorization", `Bearer ${sent}`);
        const response = await inner(input, sent === "" ? init : { ...init, headers });
        if (response.status !== 401 || !/realm="parley"/.test(response.headers.get("WWW-Authenticate") ?? "")) {
          letIn ||= sent === "" && response.ok;
          return response;
        }
        void response.body?.cancel();
        init?.signal?.throwIfAborted();
        await another(sent, init?.signal);
      }
    },
    unlock: (now) => {
      if (now.trim() === "") return;
      keep(now.trim());
      store.setState({ asked: false, refused: false, ended: false });
      const all = waiting;
      waiting = [];
      for (const go of all) go();
    },
  };
}
