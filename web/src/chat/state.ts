// The state of a page with a chat, as data.

import type { ApiError, AppInfo } from "../api/client.ts";
import type { Connection } from "../api/stream.ts";
import type { Attachment, ResourceRef, RestoredView, RewindView, SessionInfo } from "../api/types.gen.ts";
import type { Exchange } from "../session/exchange.ts";
import type { Records } from "../session/records.ts";

/** The open session's phase on this page. */
export type Phase =
  | "new" // nothing was said yet
  | "loading" // its log is being read; what is kept here is shown
  | "live"
  | "ended" // the server keeps it, and takes nothing more in it
  | "local" // the server does not know it: it can be read, and not continued
  | "lost" // neither the server nor this browser knows it
  | "failed"; // the server could not be asked

export interface Opened {
  id: string;
  phase: Phase;
  exchanges: Exchange[];
  /** By exchange: the key it was first drawn under, so that its element stays when it gets its id. */
  keys: ReadonlyMap<string, string>;
  records: Records;
  /** Turns before the first exchange: whether there are any, and the state of reading them. */
  older: More;
  /** The session's first message, if its beginning was not read. */
  preview: string;
  /** The cost of the turns that were not read, in US dollars. */
  usdBefore: number;
  /** The conversation from elsewhere that it continues, if its beginning was read. */
  restored: readonly RestoredView[];
  /** The times that the conversation or its files went back, the oldest first, without those that were undone or taken back. */
  rewinds: readonly RewindView[];
  /** Files are being restored; no message is taken meanwhile. */
  rewinding: boolean;
  connection: Connection | undefined;
  error: ApiError | undefined;
  /** A message that the server refused as too long, or for what it has attached; it belongs back into the box. */
  back: Draft | undefined;
}

/** A message that is not sent. */
export interface Draft {
  text: string;
  attached: readonly ResourceRef[];
  /** Files that the session has been given. */
  files?: readonly Attachment[];
}

/** What is known about a session besides its log: the server's id and its name. */
export interface Known {
  server?: string;
  title?: string;
}

/** Whether a list has more entries, and the state of reading them. */
export type More = "none" | "more" | "reading" | "failed";

export interface ChatState {
  app: AppInfo | undefined;
  /** Why the app is not served. */
  refused: ApiError | undefined;
  /** Why the app could not be read, if it is served at all. */
  unread: ApiError | undefined;
  known: Record<string, Known>;
  /** Sessions in which a turn is open, except those whose queue is held. */
  running: ReadonlySet<string>;
  opened: Opened;
  /** Whether the server's list has more sessions. */
  moreSessions: More;
  /** An error that does not belong to an exchange. */
  problem: ApiError | undefined;
}

/** Texts that differ between pages. */
export interface Words {
  /** Used until the server has sent the app's name. */
  title: string;
  /** Shown above the first questions. */
  greeting: string;
  /** Shown in the empty input. */
  placeholder: string;
  /** An example of a pin. */
  pin: string;
}

/** The id of a session in URLs: the id given by a page, or the server's. */
export const keyOf = (info: SessionInfo): string => info.outside_id || info.id;
