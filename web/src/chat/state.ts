// What a page with a chat shows, as data.

import type { ApiError, AppInfo } from "../api/client.ts";
import type { Connection } from "../api/stream.ts";
import type { SessionInfo } from "../api/types.gen.ts";
import type { Exchange } from "../session/exchange.ts";
import type { Records } from "../session/records.ts";

/** What the open session is to this page. */
export type Phase =
  | "new" // nothing was said yet
  | "loading" // its log is being read; what is kept here is shown
  | "live"
  | "ended" // the server keeps it, and takes nothing more in it
  | "local" // the server does not know it: it can be read, and not continued
  | "failed"; // the server could not be asked

export interface Opened {
  id: string;
  phase: Phase;
  exchanges: Exchange[];
  /** By exchange: the key it was first drawn under, so that it stays the same element when it gets its id. */
  keys: ReadonlyMap<string, string>;
  records: Records;
  /** Turns before the first exchange: whether there are any, and what became of reading them. */
  older: More;
  /** What the session began with, where its beginning was not read. */
  preview: string;
  /** What the turns cost that were not read, in US dollars. */
  usdBefore: number;
  connection: Connection | undefined;
  error: ApiError | undefined;
}

/** What is known of a session beside its log: the server's id of it, and its name. */
export interface Known {
  server?: string;
  title?: string;
}

/** What there is beyond what was read of a list, and what became of reading it. */
export type More = "none" | "more" | "reading" | "failed";

export interface ChatState {
  app: AppInfo | undefined;
  known: Record<string, Known>;
  /** Sessions in which a turn is open. */
  running: ReadonlySet<string>;
  opened: Opened;
  /** Sessions behind those that were read of the server's list. */
  moreSessions: More;
  /** What went wrong outside of an exchange. */
  problem: ApiError | undefined;
}

/** What a page says in its own words. */
export interface Words {
  /** Until the server has said what the app is called. */
  title: string;
  /** Over the first questions. */
  greeting: string;
  /** In the empty input. */
  placeholder: string;
}

/** What a session is called in addresses: the id that a page gave it, or the server's. */
export const keyOf = (info: SessionInfo): string => info.outside_id || info.id;
