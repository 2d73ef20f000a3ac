// Parley's client for pages of your own: the module /parley/client.js, which every page that an app brings finds
// at its own address. Copy this file beside your sources for its types.
//
//   import { connect } from "/parley/client.js";
//   const talk = await connect({ app: "mine" }).open();
//   talk.subscribe((state) => render(state.turns, state.questions));
//   await talk.send("Hello");

/** Talks to the server that served the page. Nothing is asked before `open`. */
export declare function connect(options: Options): Parley;

export interface Options {
  /** The app's name. */
  app: string;
  /** A key for this page, where the server asks for one: `parley keys create NAME --app APP`. */
  key?: string;
}

export interface Parley {
  /**
   * Opens a conversation and follows it. With a name of your own the same one is opened again, also on another
   * device of the same user; without one it is new. Rejects with a ParleyError.
   */
  open(name?: string): Promise<Conversation>;
}

export interface Conversation {
  /** The session's id on the server. */
  readonly id: string;
  readonly state: State;
  /** Calls back at once and after each change, at most once a frame. Returns what ends that. */
  subscribe(changed: (state: State) => void): () => void;
  /**
   * Sends a message and returns the turn's id once the server has stored it. A request whose answer was lost is made
   * again with the same key, so the message is sent once. Rejects with a ParleyError, such as "busy" while another turn
   * runs, and with "unreachable" after a minute without the server. With resources, it waits until they are read.
   */
  send(message: string, options?: SendOptions): Promise<string>;
  /** Answers a question, a permission or a confirmation. The first answer counts: a later one rejects with "conflict". */
  answer(question: string, answer: Answer): Promise<void>;
  /** Stops a turn; without an id, the one that is open. */
  cancel(turn?: string): Promise<void>;
  /** Reads the turns before the first one in the state, if there are any. */
  older(): Promise<void>;
  /** Stops following. What runs on the server goes on. */
  close(): void;
}

export interface SendOptions {
  /**
   * At most ten, and the server reads them before it accepts the message. One that cannot be had rejects with a
   * ParleyError, and nothing is sent.
   */
  resources?: readonly Resource[];
}

/** A resource of one of the app's MCP servers. `GET /v1/apps/{app}/resources` lists them, with the title as `name`. */
export interface Resource {
  server: string;
  uri: string;
  /** What people are shown instead of the URI. At most 200 characters, in one line. */
  title?: string;
}

export interface State {
  /**
   * "live", or why not. While "connecting" or "waiting" it comes back by itself, from the last event that it has:
   * nothing is shown twice or left out. "refused" is for good, with the error.
   */
  connection: "connecting" | "live" | "waiting" | "refused";
  error?: ParleyError;
  /** The oldest first. */
  turns: Turn[];
  /** What waits for an answer. */
  questions: Question[];
}

export interface Turn {
  id: string;
  message: string;
  /** The resources that the message has attached or mentions. */
  resources: readonly Resource[];
  /** Markdown, as far as it is there. */
  answer: string;
  /** "resuming": it was interrupted and goes on by itself. */
  status: "pending" | "running" | "streaming" | "waiting" | "resuming" | "completed" | "failed" | "cancelled" | "expired" | "interrupted";
  /** Whether more may come. */
  open: boolean;
  /** The tools that were called, in order. */
  calls: { id: string; tool: string; input: unknown; outcome?: "ok" | "error" | "denied" | "cancelled" | "unknown" }[];
  /** The answer came from rules, not from a language model. */
  scripted: boolean;
  error?: { code: string; message: string; hint?: string };
}

export interface Question {
  id: string;
  turn: string;
  /** "client": a call waits for a program of yours that runs its tool. "unknown": a write may have happened or not. */
  kind: "question" | "permission" | "confirmation" | "credential" | "unknown" | "client";
  title: string;
  text?: string;
  /** The tool that would be called, and with what. */
  tool?: string;
  input?: unknown;
  /** What Answer.choice may be. */
  choices: string[];
  /** Of the kind "question": what is asked, with the answers that are offered. */
  asks: { question: string; header: string; options: { label: string; description?: string }[]; multiple: boolean }[];
}

export interface Answer {
  /** One of the question's choices, such as "allow" or "deny"; "answered" with answers. */
  choice: string;
  /** A message that comes with a denial. */
  text?: string;
  /** By the text of what was asked: the label that was chosen, or a text of one's own. */
  answers?: Record<string, string>;
}

/** Every failure. `code` is for programs, `message` and `hint` are for people. */
export declare class ParleyError extends Error {
  readonly code: string;
  readonly hint: string;
  /** 0 if the server did not answer. */
  readonly status: number;
}
