// The JavaScript of Parley's sidecar, the panel that one tag puts on a page:
//
//   <script src="https://parley.example.com/sidecar.js" data-api-url="/" defer></script>
//
// It is window.ParleySidecar. A script that may run before it pushes a function, which is called when it is there:
//
//   (window.ParleySidecar ??= []).push((sidecar) => sidecar.configure({ getToken: () => session.token() }));
//
// Copy this file beside your sources for its types.

declare global {
  interface Window {
    ParleySidecar: Sidecar | ((sidecar: Sidecar) => void)[];
  }
}

export interface Sidecar {
  readonly version: string;
  readonly isOpen: boolean;
  /** Calls f, now or as soon as the script is there. */
  push(f: (sidecar: Sidecar) => void): void;

  /**
   * Puts the panel on the page. The tag does it by itself, unless it has `data-manual`. There is one panel for a page: while it is there,
   * another mount changes its settings, and it goes when each has been unmounted. So a component may mount it when it
   * appears and unmount it when it goes, in any order, and twice.
   */
  mount(options?: Options): Mounted;
  /** Takes the panel away, whoever has mounted it, with all that it put on the page. The conversation is kept for the next mount. */
  unmount(): void;
  /** Changes settings; what is not named stays. */
  configure(options: Options): void;

  open(): void;
  close(): void;
  toggle(): void;
  /**
   * Opens the panel and sends a message as the user. Rejects with an Error: while an answer is under way, and for an
   * empty message.
   */
  send(message: string): Promise<void>;
  /** Puts a text into the input, for the user to change and send. */
  prefill(text: string): void;
  newConversation(): void;

  /** The user's bearer token, without "Bearer". null: the user has left, and everything that is kept of the conversation in this tab is forgotten. */
  setToken(token: string | null): void;
  /** The organisation, sent as orgId and X-Org-Id. Another one begins a new conversation. */
  setOrg(org: string | null): void;
  /**
   * What the user sees on the page. It goes with each message until it is replaced, the user sees that it does, and can
   * leave it out. It must be JSON of at most 8,000 characters, or this throws. It is no secret to the model.
   */
  setContext(context: Context | null): void;

  /** Calls f for each event of a type. Returns what ends that. */
  on<T extends keyof Events>(type: T, f: (detail: Events[T]) => void): () => void;
}

export interface Mounted {
  /** Once for each mount. Further calls do nothing. */
  unmount(): void;
}

/** Each is optional; those of the tag are attributes: `data-api-url`, `data-ws-url`, `data-org`, ... */
export interface Options {
  /** Conversations are at `api/chat/conversations` below it. Default: the server that the script came from. May be relative to the page. */
  apiUrl?: string;
  /** The WebSocket. Default: `ws/codex` below apiUrl. May be relative to the page. */
  wsUrl?: string;
  /** Parley itself, for its API below `v1/`, by which answers go on after a lost connection. Default: the server that the script came from. */
  serverUrl?: string;
  /** The base of the API that the agent is to use, if there are several. It must be on the server's list. */
  apiBaseUrl?: string;
  org?: string;
  /** Names the user, where the token does not. What the tab has kept of another user is not shown. */
  user?: string;
  token?: string;
  /**
   * Gives a token: "missing" at the first use without one, "expired" when the one at hand has ended, "refused" when a server did
   * not accept it. What was under way waits for it and goes on. Without a token the user is told to sign in.
   */
  getToken?: (why: "missing" | "expired" | "refused") => string | null | undefined | Promise<string | null | undefined>;
  /** Default: "Assistant". */
  title?: string;
  /** The words above an empty conversation. */
  greeting?: string;
  /** Messages to begin with; in the attribute separated by |. */
  suggestions?: readonly string[];
  /** "auto", the default: as the page's color-scheme says. */
  theme?: "light" | "dark" | "auto";
  /** The side of the page: "end" is the right one where text runs from left to right. Default: "end". */
  side?: "start" | "end";
  /** Opens and closes the panel. Default: "Mod+." (Command on a Mac, else Control); "" is none. */
  key?: string;
  /** The round button that opens the panel. Default: true; in the attribute `none`. */
  launcher?: boolean;
}

export interface Context {
  /** What the user is told is sent along, such as "Lead: Ada Lovelace". */
  label: string;
  /** For the agent. */
  data: unknown;
}

export interface Events {
  open: undefined;
  close: undefined;
  /** The user sent a message. */
  message: { text: string };
  /** The agent has begun or ended an API call. */
  action: { label: string; state: string };
  /** The agent has answered. */
  answer: { text: string };
  /** A write waits for the user. */
  confirm: Write;
  /** A write was made, has failed, or may have been made ("unknown"): what the page shows may be old. */
  write: Write;
  error: { message: string };
}

export interface Write {
  id: string;
  title: string;
  summary: string;
  method: string;
  path: string;
  /** The body's JSON, as it is sent. */
  body?: string;
  state: "open" | "sent" | "done" | "failed" | "refused" | "unknown" | "expired" | "cancelled";
}
