// The only way to the server: every request of the pages goes through here, and every failure
// becomes an ApiError that says what to do.

import { Slots } from "./slots.ts";
import type { Answer, Attachment, BusyMode, Code, Effect, EntityRef, ErrorInfo, Event, Interaction, LoginAnswer, LoginFinished, PermissionMode, Pin, ResourceRef, RewindResult, RewindWhat, Rule, Schedule, SessionInfo, TurnInfo, Usage as TokenUsage } from "./types.gen.ts";
import { errorInPageWords } from "./words.ts";

/** The server's base URL: the pages may be served below a prefix, at PREFIX/ or at PREFIX/apps/{app}/. */
export function baseOf(href: string): string {
  const url = new URL(href);
  // The last match, because the prefix may contain such a part too.
  const prefix = url.pathname.replace(/^(.*)\/apps\/[^/]+\/.*$/, "$1/").replace(/[^/]*$/, "");
  return url.origin + prefix;
}

/** The app whose page is at an address; "" for other pages. */
export const appOf = (href: string): string => decodeURIComponent(/\/apps\/([^/]+)\/[^/]*$/.exec(new URL(href).pathname)?.[1] ?? "");

/** Codes that only a client uses, in addition to the server's. */
export type ErrorCode = Code | "unreachable";

export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: ErrorCode;
  readonly hint: string;
  /** The field at fault, if any. */
  readonly field: string;
  /** 0 when there was no answer. */
  readonly status: number;
  readonly retryAfterMs: number;
  /** When to try again, by this browser's clock; 0: the server did not say. */
  readonly retryAt: number;

  constructor(info: { code: ErrorCode; message: string; hint?: string; field?: string; status?: number; retryAfterMs?: number }) {
    super(info.message);
    this.code = info.code;
    this.hint = info.hint ?? "";
    this.field = info.field ?? "";
    this.status = info.status ?? 0;
    this.retryAfterMs = info.retryAfterMs ?? 0;
    this.retryAt = this.retryAfterMs > 0 ? Date.now() + this.retryAfterMs : 0;
  }
}

/** Converts anything thrown to an error for people. */
export function toApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  return new ApiError({ code: "internal", message: cause instanceof Error ? cause.message : String(cause) });
}

/** The error of a request without an answer. */
export const unreachable = (): ApiError =>
  new ApiError({
    code: "unreachable",
    ...(isOffline()
      ? { message: "This device is offline.", hint: "The page reconnects by itself. Nothing that was saved is lost." }
      : { message: "The server cannot be reached.", hint: "Check that it is running. Nothing that was saved is lost." }),
  });

/** Whether the browser knows that there is no network. A server on the same device is still reached then. */
export const isOffline = (): boolean => typeof navigator !== "undefined" && navigator.onLine === false;

/** The error in an error response. A body of another shape still gives a sentence. */
export async function errorOf(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("Retry-After"));
  const fallback = {
    code: ({ 401: "unauthenticated", 404: "not_found" }[response.status] ?? "internal") as ErrorCode,
    message: `The server answered ${response.status}${response.statusText ? ` ${response.statusText}` : ""}.`,
    // A login in front of the server, such as Home Assistant's; our server would ask for a key.
    ...(response.status === 401 && { hint: "You may have been logged out. Reload the page." }),
  };
  let body: unknown;
  try {
    body = await response.json();
  } catch {
    // Not JSON, for example a proxy's page: only the status is known.
  }
  return new ApiError({ ...fallback, retryAfterMs: Number.isFinite(wait) ? wait * 1000 : 0, ...infoOf(body), status: response.status });
}

/** The fields of a body in our error shape, in the page's words; nothing for other bodies. */
export function infoOf(body: unknown): { code?: Code; message?: string; hint?: string; field?: string; retryAfterMs?: number } {
  if (typeof body !== "object" || body === null || !("error" in body)) return {};
  const e = body.error as Partial<ErrorInfo> | null;
  if (typeof e !== "object" || e === null) return {};
  return errorInPageWords({
    ...(typeof e.code === "string" && { code: e.code }),
    ...(typeof e.message === "string" && { message: e.message }),
    ...(typeof e.hint === "string" && { hint: e.hint }),
    ...(typeof e.field === "string" && { field: e.field }),
    ...(typeof e.retry_after_ms === "number" && { retryAfterMs: e.retry_after_ms }),
  });
}

/** The fields of GET /v1/apps that the pages need. */
export interface AppInfo {
  name: string;
  title: string;
  description?: string;
  /** scripted: answers come from rules, not from a language model. */
  model: { name: string; scripted: boolean };
  /** Questions to start with. */
  examples: string[];
  /** Questions that refer to an answer. */
  follow_ups?: string[];
  /** The permission modes that a session may have. */
  modes?: PermissionMode[];
  /** The permission mode of a session that names none. */
  mode?: PermissionMode;
  /** Callers cannot choose a model. */
  fixed_model?: boolean;
  /** What carries out its turns, unless a session chooses another of runtimes. */
  runtime?: string;
  runtimes?: string[];
  /** Of these, which cannot carry out turns now, and why. */
  runtimes_missing?: Record<string, string>;
  agents?: { name: string; description?: string; model?: string }[];
  tools?: { name: string; description: string; effect: Effect; edits?: boolean }[];
  page?: AppPage;
  /** Messages that people should see. */
  notices: string[];
}

/** Who the server takes a caller for, and why. */
export interface Me {
  user: string;
  org?: string;
  /** For people. */
  name?: string;
  /** none: the server asks nobody here. */
  how: "none" | "ingress" | "key" | "token" | "signin";
  key?: string;
  sign_in?: string;
  issuer?: string;
  by?: string;
  scopes?: string[];
  expires_at?: string;
}

/** A browser that is signed in as the caller. */
export interface OwnSignIn {
  id: string;
  issuer: string;
  browser?: string;
  created_at: string;
  used_at: string;
  expires_at: string;
  current: boolean;
}

/** A key that acts as the caller. */
export interface OwnKey {
  name: string;
  begins?: string;
  app?: string;
  scopes?: string[];
  /** Left out for a key of the settings, which only the operator can remove. */
  created_at?: string;
  used_at?: string;
  expires_at?: string;
  current: boolean;
}

/** Something of the caller's that is notified. */
export interface OwnDevice {
  id: string;
  kind: "webhook" | "webpush" | "fcm";
  name: string;
  created_at: string;
  delivered_at?: string;
  last_error?: string;
  dropped?: number;
}

/** How an app looks. */
export interface AppPage {
  accent?: string;
  logo: boolean;
  /** Files of its users and workspaces may name what runs once a person has approved it. */
  approvals?: boolean;
  /** The address of a page of its own. */
  url?: string;
}

/** A prompt with a name. A message "/name and more" stands for it. */
export interface SlashCommand {
  name: string;
  description?: string;
  /** What may follow the name, for people. */
  argument_hint?: string;
}

/** Something of an MCP server that a message may have attached. */
export interface Resource {
  server: string;
  uri: string;
  /** The URI has names in braces, for which values are needed. */
  template?: boolean;
  name: string;
  description?: string;
  media_type?: string;
  size?: number;
}

/** A server that did not list its resources. */
export interface FailedServer {
  server: string;
  error: ErrorInfo;
  /** Where the user logs in, if that is why. */
  login?: string;
}

/** What the servers of a session offer. */
export interface ResourceList {
  resources: Resource[];
  /** The servers that could not be asked. */
  failed: FailedServer[];
  /** There are more than are listed. */
  cut: boolean;
}

/** "off": the operator lets nothing of such files run. "open": nobody has decided. */
export type ApprovalState = "off" | "open" | "allowed" | "denied";

/** Something that a file of a user or workspace would run, and what a person has decided about it. */
export interface Approval {
  /** Of the command line, the file's entry and the files that it names: when one of them changes, it is another approval. */
  digest: string;
  kind: "hook" | "mcp_server";
  level: string;
  file: string;
  name: string;
  /** The whole command line, or the address that is called. */
  runs: string;
  /** Nothing runs on the server's machine: runs is an address. */
  remote?: boolean;
  files?: string[];
  state: ApprovalState;
  /** Why it does not run even if it is allowed. */
  problem?: string;
  by?: string;
  at?: string;
}

/** A model that a session may name. */
export interface ModelInfo {
  name: string;
  scripted?: boolean;
}

/** What the server says about itself. */
export interface ServerInfo {
  version: string;
  off: { app: string; why: string }[];
  /** Its page may kill it, to show what becomes of an answer then. */
  killable?: boolean;
}

/** What the caller's model calls cost, by day and model. */
export interface Usage {
  days: { day: string; model: string; calls: number; usage: TokenUsage }[];
  usd: number;
  /** How much the caller may spend in a day, if there is a limit. */
  quota_usd?: number;
}

/** An interaction and its status, as listed in the inbox. */
export interface InteractionRow extends Interaction {
  open: boolean;
  answer?: Answer;
  answered_by?: string;
}

/** What can be changed about a session. */
export interface SessionPatch {
  title?: string;
  mode?: PermissionMode;
  /** "" is the app's. */
  model?: string;
  /** "" is the app's. It is changed between turns only. */
  runtime?: string;
  /** Replaces what is attached. */
  attached_entities?: readonly EntityRef[];
  /** Replaces all pins. */
  pins?: readonly Pin[];
  /** The granted rules to keep; the others are revoked. */
  rules?: readonly Rule[];
}

/** Where the last turns begin in a session's log, and the session's current settings. */
export interface SessionWindow {
  session: SessionInfo;
  after: number;
  turns: number;
  /** There are older turns. */
  more: boolean;
  /** How the turns began whose first events are left out, and what they still ask. */
  begun?: Event[];
  mode: PermissionMode | "";
  max_open_turns: number;
  pins: Pin[];
  rules: Rule[];
}

/** What a message may have besides its text. */
export interface SendOptions {
  busy?: BusyMode | undefined;
  resources?: readonly ResourceRef[];
  /** Ids of files that the session has been given. */
  attachments?: readonly string[];
  /** Gives up. Whether the message was accepted before the server noticed is in the log. */
  signal?: AbortSignal;
}

export type Fetch = (input: string, init?: RequestInit & { onSent?: (bytes: number) => void }) => Promise<Response>;

export interface SessionPage {
  sessions: SessionInfo[];
  /** Cursor of the next page; "" after the last. */
  next: string;
}

export interface Client {
  readonly base: string;
  readonly fetch: Fetch;
  /** Who opens a stream takes one of these first. */
  readonly slots: Slots;
  /** By title. */
  apps(signal?: AbortSignal): Promise<AppInfo[]>;
  server(signal?: AbortSignal): Promise<ServerInfo>;
  models(signal?: AbortSignal): Promise<ModelInfo[]>;
  /** The slash commands of a session. The server knows what they say: a message names one. */
  commands(session: string, signal?: AbortSignal): Promise<SlashCommand[]>;
  /** The slash commands that a new session of the app would have. */
  appCommands(app: string, signal?: AbortSignal): Promise<SlashCommand[]>;
  /** The resources that messages of a session may have. Servers are started for it. */
  resources(session: string, signal?: AbortSignal): Promise<ResourceList>;
  /** The resources that messages of a new session of the app may have. */
  appResources(app: string, signal?: AbortSignal): Promise<ResourceList>;
  /** What files of the session's user and workspace would run, and what was decided about each. */
  approvals(session: string, signal?: AbortSignal): Promise<Approval[]>;
  /** Decides about one of them as it was shown. not_found: its file has changed; conflict: somebody has decided meanwhile. */
  decide(session: string, shown: Approval, state: ApprovalState): Promise<Approval>;
  /** Who the server takes this page's user for. */
  me(signal?: AbortSignal): Promise<Me>;
  signIns(signal?: AbortSignal): Promise<OwnSignIn[]>;
  endSignIn(id: string): Promise<void>;
  keys(signal?: AbortSignal): Promise<OwnKey[]>;
  revokeKey(name: string): Promise<void>;
  /** undefined: the server has no devices. */
  devices(signal?: AbortSignal): Promise<OwnDevice[] | undefined>;
  removeDevice(id: string): Promise<void>;
  /** undefined: the server has no schedules. */
  schedules(signal?: AbortSignal): Promise<Schedule[] | undefined>;
  pauseSchedule(id: string, paused: boolean): Promise<void>;
  runSchedule(id: string): Promise<void>;
  /** Signs this browser out; resolves to where it has to go next, or "". */
  signOut(): Promise<string>;
  /** Hands in what a browser brought back from a login at another service. */
  finishLogin(answer: LoginAnswer): Promise<LoginFinished>;
  /** Hands it in at the path that takes it, which has it in its query. */
  handIn(path: string): Promise<void>;
  /** The costs of today. */
  usage(signal?: AbortSignal): Promise<Usage>;
  /** Ends the server as a power cut would, if it is killable. */
  kill(): Promise<void>;
  app(name: string, signal?: AbortSignal): Promise<AppInfo>;
  /** A page of the list, most recently changed first: the page at a cursor, or the first page. */
  sessions(app: string, cursor?: string, signal?: AbortSignal): Promise<SessionPage>;
  session(id: string, signal?: AbortSignal): Promise<SessionInfo>;
  /** The window of the newest turns, or of those before a turn. With events, it has about so many at most. */
  window(session: string, before?: string, events?: number, signal?: AbortSignal): Promise<SessionWindow>;
  /** The events after one number, up to and including another. */
  events(session: string, after: number, to: number): Promise<Event[]>;
  /** Creates the caller's session with this outside id, or returns the existing one. */
  createSession(app: string, outsideID: string, more?: { mode?: PermissionMode; model?: string; runtime?: string; workspace?: string; attached_entities?: EntityRef[] }): Promise<SessionInfo>;
  update(id: string, patch: SessionPatch): Promise<SessionInfo>;
  remove(id: string): Promise<void>;
  /** The same key returns the same turn, so a request whose answer was lost can be repeated. */
  send(session: string, message: string, key: string, more?: SendOptions): Promise<Pick<TurnInfo, "id" | "session_id" | "status">>;
  /** Gives a file to a session, for its messages. The same file is given once. onSent is told how much of it has been sent. */
  attach(session: string, file: File, signal?: AbortSignal, onSent?: (bytes: number) => void): Promise<Attachment>;
  cancel(turn: string, reason: string): Promise<void>;
  retry(turn: string): Promise<Pick<TurnInfo, "id" | "session_id" | "status">>;
  resume(turn: string): Promise<void>;
  /** Copies a session up to an event, or all of it. */
  fork(session: string, at: number | undefined, key: string): Promise<SessionInfo>;
  /** Takes a session back, or with preview says what that would do. */
  rewind(session: string, request: RewindRequest, key: string): Promise<RewindResult>;
  /** Everything that waits for an answer, over all sessions, oldest first. */
  interactions(signal?: AbortSignal): Promise<InteractionRow[]>;
  /** The first answer counts; a later one is a conflict. */
  answer(interaction: string, answer: Answer, credentials?: Record<string, string>): Promise<InteractionRow>;
  /** The URL of an artifact, for servers that ask for no key. */
  artifact(id: string): string;
  /** An artifact as an object URL, for servers that ask for a key; revoke() releases it. With type, it is of that type, whatever it says. */
  fetched(id: string, signal?: AbortSignal, type?: string): Promise<{ url: string; revoke(): void }>;
  /** An artifact as text. */
  text(id: string, signal?: AbortSignal): Promise<string>;
  /** The content of a JSON artifact. */
  read(id: string, signal?: AbortSignal): Promise<unknown>;
  /** Whether the server asks for a key, so that a plain URL is not enough. */
  locked(): boolean;
  /** Another request of the API: the JSON of its answer. */
  request(method: string, path: string, options?: RequestOptions): Promise<unknown>;
  /** The bytes at an address of the API. */
  download(path: string, signal?: AbortSignal): Promise<Blob>;
}

export interface RewindRequest {
  /** To before the message of this turn. */
  turn?: string;
  /** To before this session.rewound event, in place of turn. */
  undo?: number;
  what?: RewindWhat;
  preview?: boolean;
  expected_version?: number;
}

export interface RequestOptions {
  body?: unknown;
  /** The body as it is. */
  raw?: Blob;
  /** Is told how much of raw has been sent. */
  onSent?: ((bytes: number) => void) | undefined;
  key?: string;
  signal?: AbortSignal | undefined;
}

/** How many pages of a session's resources are read. */
const mostPages = 10;

/** A list comes bare or, if paged, under its name. */
function listOf<T>(body: unknown, name: string): T[] {
  if (Array.isArray(body)) return body as T[];
  const inner = typeof body === "object" && body !== null ? (body as Record<string, unknown>)[name] : undefined;
  return Array.isArray(inner) ? (inner as T[]) : [];
}

function nextOf(page: unknown): string {
  const next = typeof page === "object" && page !== null ? (page as { next?: unknown }).next : undefined;
  return typeof next === "string" ? next : "";
}

export function createClient(base: string, fetcher: Fetch = (input, init) => fetch(input, init), locked = () => false, slots = new Slots()): Client {
  async function call(method: string, path: string, options: RequestOptions = {}) {
    const headers: Record<string, string> = { Accept: "application/json" };
    if (options.body !== undefined) headers["Content-Type"] = "application/json";
    if (options.raw) headers["Content-Type"] = "application/octet-stream";
    if (options.key) headers["Idempotency-Key"] = options.key;
    let response: Response;
    try {
      response = await fetcher(base + path, {
        method,
        headers,
        body: options.raw ?? (options.body === undefined ? null : JSON.stringify(options.body)),
        signal: options.signal ?? null,
        credentials: "same-origin",
        ...(options.onSent && { onSent: options.onSent }),
      });
    } catch (cause) {
      if (options.signal?.aborted) throw cause;
      throw unreachable();
    }
    if (!response.ok) throw await errorOf(response);
    const text = await response.text();
    try {
      return text === "" ? undefined : (JSON.parse(text) as unknown);
    } catch {
      throw new ApiError({
        code: "internal",
        message: "The server's answer was not understood.",
        hint: "Something between this page and the server may have changed it. Reload the page.",
        status: response.status,
      });
    }
  }
  const id = encodeURIComponent;
  async function answerOf(path: string, signal?: AbortSignal): Promise<Response> {
    const response = await fetcher(base + path, { signal: signal ?? null, credentials: "same-origin" });
    if (!response.ok) throw await errorOf(response);
    return response;
  }
  async function bytesOf(artifact: string, signal?: AbortSignal): Promise<Response> {
    return answerOf(`v1/artifacts/${id(artifact)}`, signal);
  }
  /** Reads the pages of a list of resources. */
  const resourcesAt = async (path: string, signal: AbortSignal | undefined): Promise<ResourceList> => {
    const list: ResourceList = { resources: [], failed: [], cut: false };
    let cursor = "";
    for (let n = 0; n < mostPages && (n === 0 || cursor !== ""); n++) {
      const page = (await call("GET", `${path}${cursor && `?cursor=${id(cursor)}`}`, { signal })) as Partial<ResourceList>;
      list.resources.push(...listOf<Resource>(page, "resources"));
      list.failed = listOf(page, "failed");
      list.cut ||= listOf(page, "cut").length > 0;
      cursor = nextOf(page);
    }
    return { ...list, cut: list.cut || cursor !== "" };
  };
  return {
    base,
    fetch: fetcher,
    slots,
    apps: async (signal) => listOf<AppInfo>(await call("GET", "v1/apps", { signal }), "apps").sort((a, b) => (a.title || a.name).localeCompare(b.title || b.name)),
    server: async (signal) => (await call("GET", "v1/server", { signal })) as ServerInfo,
    models: async (signal) => listOf<ModelInfo>(await call("GET", "v1/models", { signal }), "models"),
    appCommands: async (app, signal) => listOf<SlashCommand>(await call("GET", `v1/apps/${id(app)}/commands`, { signal }), "commands"),
    commands: async (session, signal) => listOf<SlashCommand>(await call("GET", `v1/sessions/${id(session)}/commands`, { signal }), "commands"),
    resources: (session, signal) => resourcesAt(`v1/sessions/${id(session)}/resources`, signal),
    appResources: (app, signal) => resourcesAt(`v1/apps/${id(app)}/resources`, signal),
    approvals: async (session, signal) => listOf<Approval>(await call("GET", `v1/sessions/${id(session)}/approvals`, { signal }), "approvals"),
    decide: async (session, { digest, state: was }, state) =>
      (await call("POST", `v1/sessions/${id(session)}/approvals/${id(digest)}`, { body: { state, was } })) as Approval,
    me: async (signal) => (await call("GET", "v1/me", { signal })) as Me,
    signIns: async (signal) => listOf<OwnSignIn>(await call("GET", "v1/me/signins", { signal }), "sign_ins"),
    endSignIn: async (signIn) => void (await call("DELETE", `v1/me/signins/${id(signIn)}`)),
    keys: async (signal) => listOf<OwnKey>(await call("GET", "v1/me/keys", { signal }), "keys"),
    revokeKey: async (name) => void (await call("DELETE", `v1/me/keys/${id(name)}`)),
    devices: async (signal) => {
      try {
        return listOf<OwnDevice>(await call("GET", "v1/devices", { signal }), "devices");
      } catch (cause) {
        if (toApiError(cause).status === 404) return undefined;
        throw cause;
      }
    },
    schedules: async (signal) => {
      try {
        return listOf<Schedule>(await call("GET", "v1/schedules", { signal }), "schedules");
      } catch (cause) {
        if (toApiError(cause).status === 404) return undefined;
        throw cause;
      }
    },
    pauseSchedule: async (schedule, paused) => void (await call("PATCH", `v1/schedules/${id(schedule)}`, { body: { paused } })),
    runSchedule: async (schedule) => void (await call("POST", `v1/schedules/${id(schedule)}/run`)),
    removeDevice: async (device) => void (await call("DELETE", `v1/devices/${id(device)}`)),
    signOut: async () => ((await call("POST", "v1/signout")) as { url?: string }).url ?? "",
    finishLogin: async (answer) => (await call("POST", "v1/logins", { body: answer })) as LoginFinished,
    handIn: async (path) => void (await call("GET", path)),
    usage: async (signal) => (await call("GET", "v1/usage", { signal })) as Usage,
    kill: async () => void (await call("POST", "v1/server/kill", { body: {} })),
    app: async (name, signal) => (await call("GET", `v1/apps/${id(name)}`, { signal })) as AppInfo,
    sessions: async (app, cursor, signal) => {
      const page = await call("GET", `v1/sessions?app=${id(app)}&limit=100${cursor ? `&cursor=${id(cursor)}` : ""}`, { signal });
      return { sessions: listOf<SessionInfo>(page, "sessions"), next: nextOf(page) };
    },
    session: async (session, signal) => (await call("GET", `v1/sessions/${id(session)}`, { signal })) as SessionInfo,
    window: async (session, before, events, signal) => {
      const query = new URLSearchParams({ ...(before && { before }), ...(events && { events: String(events) }) }).toString();
      return (await call("GET", `v1/sessions/${id(session)}/window${query && `?${query}`}`, { signal })) as SessionWindow;
    },
    events: async (session, after, to) => {
      const events: Event[] = [];
      for (let more = true, at = after; more && at < to; ) {
        const limit = Math.min(1000, to - at);
        const page = (await call("GET", `v1/sessions/${id(session)}/events?format=json&after=${at}&limit=${limit}`)) as { events: Event[]; next: number; more: boolean };
        events.push(...page.events.filter((e) => e.seq <= to));
        more = page.more && page.next > at;
        at = page.next;
      }
      return events;
    },
    createSession: async (app, outsideID, more) =>
      (await call("POST", "v1/sessions", { body: { app, outside_id: outsideID, ...more } })) as SessionInfo,
    update: async (session, patch) => (await call("PATCH", `v1/sessions/${id(session)}`, { body: patch })) as SessionInfo,
    remove: async (session) => void (await call("DELETE", `v1/sessions/${id(session)}`)),
    send: async (session, message, key, { busy, resources = [], attachments = [], signal } = {}) =>
      (await call("POST", `v1/sessions/${id(session)}/turns`, {
        body: { message, ...(busy && { busy }), ...(resources.length > 0 && { resources }), ...(attachments.length > 0 && { attachments }) },
        key,
        signal,
      })) as TurnInfo,
    attach: async (session, file, signal, onSent) =>
      (await call("POST", `v1/sessions/${id(session)}/attachments?name=${id(file.name)}`, { raw: file, signal, onSent })) as Attachment,
    cancel: async (turn, reason) => void (await call("POST", `v1/turns/${id(turn)}/cancel`, { body: { reason } })),
    retry: async (turn) => (await call("POST", `v1/turns/${id(turn)}/retry`)) as TurnInfo,
    fork: async (session, at, key) => (await call("POST", `v1/sessions/${id(session)}/fork`, { body: at === undefined ? {} : { at }, key })) as SessionInfo,
    rewind: async (session, request, key) => (await call("POST", `v1/sessions/${id(session)}/rewind`, { body: request, ...(!request.preview && { key }) })) as RewindResult,
    resume: async (turn) => void (await call("POST", `v1/turns/${id(turn)}/resume`)),
    interactions: async (signal) => {
      const rows: InteractionRow[] = [];
      let cursor = "";
      do {
        const page = await call("GET", `v1/interactions?limit=200${cursor && `&cursor=${id(cursor)}`}`, { signal });
        rows.push(...listOf<InteractionRow>(page, "interactions"));
        cursor = nextOf(page);
      } while (cursor !== "");
      return rows;
    },
    answer: async (interaction, answer, credentials) =>
      (await call("POST", `v1/interactions/${id(interaction)}/answer`, { body: credentials ? { ...answer, credentials } : answer })) as InteractionRow,
    artifact: (artifact) => `${base}v1/artifacts/${id(artifact)}`,
    read: (artifact, signal) => call("GET", `v1/artifacts/${id(artifact)}`, { signal }),
    text: async (artifact, signal) => (await bytesOf(artifact, signal)).text(),
    fetched: async (artifact, signal, type) => {
      const blob = await (await bytesOf(artifact, signal)).blob();
      const url = URL.createObjectURL(type ? new Blob([blob], { type }) : blob);
      return { url, revoke: () => URL.revokeObjectURL(url) };
    },
    locked,
    request: call,
    download: async (path, signal) => (await answerOf(path, signal)).blob(),
  };
}
