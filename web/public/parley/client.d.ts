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
  /** The app's conversations of this user, for pages that list and keep them. */
  readonly conversations: Conversations;
}

/**
 * Conversations as `/v1/conversations` has them: each has a status, and its answer so far. They have the id that their
 * client gave them, or their session's. `open(id)` follows one that was made with an id of your own in more detail.
 * A request is made again while the server does not answer, for up to a minute. All reject with a ParleyError.
 */
export interface Conversations {
  /** If a conversation has the id already, it is that one. */
  create(fields?: NewConversation): Promise<KeptConversation>;
  /** A page, the last changed first, without streaming_content. A limit of 50 when not given. */
  list(options?: { cursor?: string; limit?: number }): Promise<ConversationPage>;
  read(id: string): Promise<KeptConversation>;
  /** Changes the fields that are given. */
  update(id: string, fields: { title?: string; attached_entities?: readonly AttachedEntity[] }): Promise<KeptConversation>;
  /** Deletes it with its session. */
  delete(id: string): Promise<void>;
  /**
   * The conversation, then the changes behind the one with the number `after`, or without it those from now on. It
   * reconnects behind the last one, so each change comes once and in order. It ends when you leave the loop or abort
   * the signal, and throws a ParleyError if the server refuses.
   */
  follow(id: string, options?: { after?: number; signal?: AbortSignal }): AsyncIterable<ConversationFrame>;
}

export interface NewConversation {
  /** Your own. */
  id?: string;
  title?: string;
  /** The workspace's name. The app's default when not given. */
  workspace_path?: string;
  attached_entities?: readonly AttachedEntity[];
  /** What was said before, elsewhere. */
  history?: readonly { role: "user" | "assistant"; content: string }[];
  model?: string;
  max_budget_usd?: number;
  max_turns?: number;
}

/** A file of the workspace that every prompt has. */
export interface AttachedEntity {
  path: string;
  title?: string;
  kind?: string;
}

export interface KeptConversation {
  id: string;
  session_id: string;
  app: string;
  title: string;
  workspace_path: string;
  attached_entities: AttachedEntity[];
  status: ConversationStatus;
  /** The answer so far while a turn runs. */
  streaming_content: string;
  usage: ConversationUsage;
  /** In US dollars. */
  cost: number;
  /** Why the status is "error". */
  error?: string;
  /** How many questions wait for a person. */
  waiting: number;
  created_at: string;
  updated_at: string;
  /** The number of its session's last event. */
  version: number;
}

/** "streaming": a turn runs, waits or is queued. "error": the last one failed, or was interrupted and does not go on by itself. */
export type ConversationStatus = "idle" | "streaming" | "error";

export interface ConversationUsage {
  input_tokens: number;
  output_tokens: number;
}

export interface ConversationPage {
  conversations: KeptConversation[];
  /** The cursor of the next page; left out on the last. */
  next?: string;
}

/** One of the three is there. */
export interface ConversationFrame {
  /** The whole of it, at the beginning and after each reconnection. */
  conversation?: KeptConversation;
  change?: ConversationChange;
  /** The answer so far; it replaces what was shown before. */
  text?: ConversationText;
}

export interface ConversationChange {
  seq: number;
  turn_id: string;
  status: ConversationStatus;
  /** The answer, or what there is of it, when a turn has ended. */
  content?: string;
  /** Of the turn that has ended. */
  usage?: ConversationUsage;
  cost?: number;
  error?: string;
}

export interface ConversationText {
  turn_id: string;
  streaming_content: string;
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
