// Code generated from package parley by go test ./web -run TestTypes -update; DO NOT EDIT.

/** What commands may carry: characters, and bytes of a pin. */
export const limits = { title: 200, reason: 2000, answer: 4096, pin: 32768, pins: 32, credential: 8192 } as const;

/** Event is one entry of a session's log. Its number, type and time never
 * change. Data is the payload's JSON; Payload decodes it. */
export type Event = EventOf[keyof EventOf];

export interface EventBase {
  session: SessionID;
  seq: number;
  turn?: TurnID;
  agent?: AgentPath;
  time: string;
  v?: number; // payload version; 0 is the first
}

export interface EventOf {
  "history.restored": EventBase & { type: "history.restored"; data: HistoryRestored };
  "memory.updated": EventBase & { type: "memory.updated"; data: MemoryUpdated };
  "context.retrieved": EventBase & { type: "context.retrieved"; data: ContextRetrieved };
  "session.created": EventBase & { type: "session.created"; data: SessionCreated };
  "session.updated": EventBase & { type: "session.updated"; data: SessionUpdated };
  "session.ended": EventBase & { type: "session.ended"; data: SessionEnded };
  "session.forked": EventBase & { type: "session.forked"; data: SessionForked };
  "turn.started": EventBase & { type: "turn.started"; data: TurnStarted };
  "turn.queued": EventBase & { type: "turn.queued"; data: TurnQueued };
  "turn.steered": EventBase & { type: "turn.steered"; data: TurnSteered };
  "turn.stop_requested": EventBase & { type: "turn.stop_requested"; data: TurnStopRequested };
  "turn.interrupted": EventBase & { type: "turn.interrupted"; data: TurnInterrupted };
  "turn.resumed": EventBase & { type: "turn.resumed"; data: TurnResumed };
  "turn.completed": EventBase & { type: "turn.completed"; data: TurnCompleted };
  "turn.failed": EventBase & { type: "turn.failed"; data: TurnFailed };
  "turn.cancelled": EventBase & { type: "turn.cancelled"; data: TurnCancelled };
  "turn.expired": EventBase & { type: "turn.expired"; data: TurnExpired };
  "agent.started": EventBase & { type: "agent.started"; data: AgentStarted };
  "agent.handoff": EventBase & { type: "agent.handoff"; data: AgentHandoff };
  "agent.ended": EventBase & { type: "agent.ended"; data: AgentEnded };
  "model.started": EventBase & { type: "model.started"; data: ModelStarted };
  "model.replied": EventBase & { type: "model.replied"; data: ModelReplied };
  "model.failed": EventBase & { type: "model.failed"; data: ModelFailed };
  "tool.requested": EventBase & { type: "tool.requested"; data: ToolRequested };
  "tool.started": EventBase & { type: "tool.started"; data: ToolStarted };
  "tool.ended": EventBase & { type: "tool.ended"; data: ToolEnded };
  "interaction.opened": EventBase & { type: "interaction.opened"; data: InteractionOpened };
  "interaction.answered": EventBase & { type: "interaction.answered"; data: InteractionAnswered };
  "interaction.expired": EventBase & { type: "interaction.expired"; data: InteractionExpired };
  "history.condensed": EventBase & { type: "history.condensed"; data: HistoryCondensed };
  "context.compacted": EventBase & { type: "context.compacted"; data: ContextCompacted };
  "context.observed": EventBase & { type: "context.observed"; data: ContextObserved };
  "context.transferred": EventBase & { type: "context.transferred"; data: ContextTransferred };
  "artifact.stored": EventBase & { type: "artifact.stored"; data: ArtifactStored };
  "budget.reached": EventBase & { type: "budget.reached"; data: BudgetReached };
  "hook.ran": EventBase & { type: "hook.ran"; data: HookRan };
  "files.announced": EventBase & { type: "files.announced"; data: FilesAnnounced };
  "files.saved": EventBase & { type: "files.saved"; data: FilesSaved };
  "runtime.noted": EventBase & { type: "runtime.noted"; data: RuntimeNoted };
  "runtime.kept": EventBase & { type: "runtime.kept"; data: RuntimeKept };
  "session.rewinding": EventBase & { type: "session.rewinding"; data: SessionRewinding };
  "session.rewound": EventBase & { type: "session.rewound"; data: SessionRewound };
}

/** What Parley calls its kinds of events. */
export const eventTypes = [
  "history.restored",
  "memory.updated",
  "context.retrieved",
  "session.created",
  "session.updated",
  "session.ended",
  "session.forked",
  "turn.started",
  "turn.queued",
  "turn.steered",
  "turn.stop_requested",
  "turn.interrupted",
  "turn.resumed",
  "turn.completed",
  "turn.failed",
  "turn.cancelled",
  "turn.expired",
  "agent.started",
  "agent.handoff",
  "agent.ended",
  "model.started",
  "model.replied",
  "model.failed",
  "tool.requested",
  "tool.started",
  "tool.ended",
  "interaction.opened",
  "interaction.answered",
  "interaction.expired",
  "history.condensed",
  "context.compacted",
  "context.observed",
  "context.transferred",
  "artifact.stored",
  "budget.reached",
  "hook.ran",
  "files.announced",
  "files.saved",
  "runtime.noted",
  "runtime.kept",
  "session.rewinding",
  "session.rewound",
] as const;

export type SessionID = string;

export type TurnID = string;

/** AgentPath names one instance of an agent within a turn: "interface", or
 * "lead/research#2" for the second research sub-agent started by lead. */
export type AgentPath = string;

/** Delta is a fragment in flight. It is not history and is never stored as an event: the
 * model.replied or tool.ended of its call has the final text. */
export interface Delta {
  session: SessionID;
  turn?: TurnID;
  agent?: AgentPath;
  call: CallID;
  kind?: DeltaKind; // empty: text
  n: number;
  text: string;
}

export type CallID = string;

/** DeltaKind says what a Delta carries; the empty kind is text of the answer. */
export type DeltaKind = "" | "thinking" | "progress";

/** ErrorInfo is the form of an Error in events and on the wires. */
export interface ErrorInfo {
  code: Code;
  message: string;
  hint?: string;
  field?: string;
  retry_after_ms?: number;
  current?: Digest;
}

/** Code classifies an error for programs. Codes appear on every wire; new ones may be
 * added, none is ever removed. */
export type Code = "invalid" | "not_found" | "unauthenticated" | "forbidden" | "busy" | "conflict" | "key_reused" | "too_large" | "rate_limited" | "quota" | "unavailable" | "fenced" | "condensed" | "deleted" | "upgrade_required" | "timeout" | "cancelled" | "model_error" | "tool_error" | "internal" | (string & {});

/** Digest is the lower-case hex SHA-256 of some bytes. */
export type Digest = string;

/** SessionInfo is a session as lists show it: an index row, and the body of
 * GET /v1/sessions/{id}. */
export interface SessionInfo {
  id: SessionID;
  app: string;
  user: string;
  org?: string;
  outside_id?: string;
  title: string;
  preview?: string; // first user message, at most 80 characters
  status: SessionStatus;
  model?: string; // the session's own, or the app's as of its last turn
  runtime?: string; // the session's own; empty: the app's
  policy?: Policy; // the policy in force without rules: the app's as of its last turn, narrowed by the session's own
  busy: BusyMode;
  parent?: SessionID;
  workspace?: Workspace;
  read_only?: boolean; // nothing in the workspace is changed
  attached_entities?: EntityRef[];
  max_budget_usd?: number; // what all turns together may cost; 0: anything
  max_turns?: number; // how often a model may be called to answer one message; 0: any number
  direct?: boolean; // made for one direct call: listed only on request, deleted after a week
  created_at: string;
  updated_at: string;
  steps_since?: string; // when the oldest turn ended whose steps are not condensed yet
  version: number; // number of the last event
  turn?: TurnRef; // the open or interrupted turn
  last?: TurnRef; // the turn that ended last
  queue?: TurnID[]; // turns queued behind it
  rewound?: Rewound; // the last rewind that was not taken back
  rewinding?: boolean; // a rewind is restoring files
  held?: boolean; // the queue waits for the next command, because a turn was stopped or the server crashed
  waiting: number; // open interactions
  offered?: number; // of these, calls that wait for a client program, and not for a person
  totals: Totals;
}

/** SessionStatus is the stage of a session's life. */
export type SessionStatus = "active" | "ended" | "expired";

/** Policy is what an app lets its agents do. If several rules match a call, the strictest
 * wins: deny, then confirm, then ask, then allow. If none matches, reads are allowed and everything
 * else is asked for. */
export interface Policy {
  rules?: Rule[];
  unattended?: boolean;
  allow_actuation?: boolean;
  allowlisted_services?: string[];
  modes?: PermissionMode[];
  fixed_model?: boolean;
  outward_after_web?: Verdict;
  answer_within?: Duration;
}

/** Rule answers yes, no or ask for a pattern of calls. Tool is a tool's name or a prefix
 * followed by "*". Either may be followed by a pattern of the call's subject in
 * parentheses, such as "ha_call_service(light.*)"; there "*" stands for any characters.
 * An empty Tool matches every tool. Effect, when set, restricts the rule to tools of that
 * effect. */
export interface Rule {
  verdict: Verdict;
  tool?: string;
  effect?: Effect;
  reason?: string; // shown to the model and to people
  reaches?: string[];
  run?: RunBy;
  safety?: string;
}

/** Verdict is a policy's decision about a call. */
export type Verdict = "allow" | "ask" | "confirm" | "deny";

/** Effect is what a call of a tool may do to the outside world. */
export type Effect = "read" | "idempotent" | "write";

/** RunBy says who runs the calls of a tool. */
export type RunBy = "runtime" | "client";

/** PermissionMode is how much a session asks before it acts. No mode allows what a rule
 * denies. */
export type PermissionMode = "default" | "acceptEdits" | "plan" | "bypassPermissions";

/** Duration is a time.Duration that is text ("1.5s") in JSON and YAML. */
export type Duration = string;

/** BusyMode is what becomes of a message that arrives while a turn runs, waits for a
 * human, or is about to be resumed automatically. When no turn is open, the message
 * begins a turn at once, or releases a queue that was held. */
export type BusyMode = "reject" | "enqueue" | "interrupt" | "steer";

/** Workspace names the folder of files that a session works in. "vault" is one of the
 * session's user. "shared/handbook" is one that the app's file shares with all its users.
 * Empty: the session has none. Another user's workspace has no name here, so it cannot be
 * reached. */
export type Workspace = string;

/** EntityRef names a file of a session's workspace that the user has attached to the session. */
export interface EntityRef {
  path: string; // relative to the workspace, with slashes
  title?: string; // for people
  kind?: string; // such as decision or meeting
}

/** TurnRef is a turn's id and status. */
export interface TurnRef {
  id: TurnID;
  status: TurnStatus;
}

/** TurnStatus is the stage of a turn's life. */
export type TurnStatus = "pending" | "running" | "streaming" | "waiting" | "completed" | "failed" | "cancelled" | "expired" | "interrupted";

/** Rewound is a rewind in a Session. */
export interface Rewound {
  seq: number; // of its session.rewound
  id: RewindID;
  what: RewindWhat;
  to: number;
  undoes?: number;
}

/** RewindID identifies a rewind. */
export type RewindID = string;

/** RewindWhat says what a rewind takes back. */
export type RewindWhat = "both" | "conversation" | "files";

/** Totals is what a session has used. */
export interface Totals {
  turns: number;
  steps: number;
  tool_calls: number;
  usage: Usage;
}

/** Usage is what something cost. Token counts come from the provider, if it gives them. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  usd?: number;
  estimated?: boolean; // some call got no reply and counts as reserved
}

/** TurnInfo is a turn as lists show it, and the body of GET /v1/turns/{id}. */
export interface TurnInfo {
  id: TurnID;
  session_id: SessionID;
  status: TurnStatus;
  stopping?: boolean;
  resumes?: boolean; // interrupted, and goes on by itself
  origin: Origin;
  message: string;
  client?: string;
  created_at: string;
  updated_at: string;
  ended_at?: string;
  response?: Response;
  error?: ErrorInfo;
  reason?: string; // why it was cancelled or interrupted
  spent: Spent;
  attempts?: number;
  retry_of?: TurnID;
  key?: string;
  first_seq: number;
  last_seq: number;
  rewound?: number; // the number of the session.rewound event that took it back
  interactions?: InteractionID[]; // the open ones
  offered?: number; // of these, calls that wait for a client program, and not for a person
}

/** Origin is who or what began a turn. */
export type Origin = "user" | "schedule" | "runtime" | "call";

/** Response is what a turn answered. */
export interface Response {
  message: string;
  reasoning_summary?: string;
  citations?: Citation[];
  follow_ups?: string[];
  scripted?: boolean; // all models that wrote it follow a script; a client that shows the message should say so
}

/** Citation says where a statement comes from. */
export interface Citation {
  source: string;
  ref: string;
  quote?: string;
}

/** Spent is what a turn has used of its budgets. */
export interface Spent {
  steps: number;
  tool_calls: number;
  depth?: number; // handoffs
  ran_ms: number; // until it last stopped running
  usage: Usage;
}

export type InteractionID = string;

/** App is a resolved application: everything outside the log that decides what
 * a turn does. Its JSON is stored once under its digest, and turn.started names
 * that digest, so a resumed turn goes on with what it began with. */
export interface App {
  name: string;
  title: string;
  description?: string;
  runtime: string; // what carries out its turns: "loop" or "claude"
  runtimes?: string[]; // that sessions may choose, besides Runtime
  entry: string; // the agent that gets the user's message
  agents: Record<string, AgentDef>;
  tools: ToolDecl[] | null; // every tool some agent has
  model: string; // for agents that name none
  fallbacks?: string[]; // models to call, in this order, when Model does not answer
  budgets: Budgets;
  policy: Policy;
  mode?: PermissionMode; // of sessions that name none; empty: ModeDefault
  memory: MemoryOptions;
  busy: BusyMode;
  max_open_turns: number; // running and queued together; at least 1
  resume: ResumeMode;
  ttl?: TTL;
  wires?: string[];
  examples?: string[]; // questions a page may offer
  follow_ups?: string[]; // questions a page may offer below an answer
  caller_tools?: CallerTools;
}

/** AgentDef is one named agent of an app. */
export interface AgentDef {
  name: string;
  description?: string; // what another agent's model reads before it hands off to this one
  prompt: string;
  model?: string; // used unless the turn or the session names one; empty: the app's
  tools?: string[];
  handoffs?: string[];
  history?: HistoryMode; // empty: all
  max_output?: number;
  temperature?: number;
  effort?: string;
  server_tools?: string[];
  fallbacks?: string[];
  as_tool?: boolean;
}

/** HistoryMode is how much of the session an agent's prompt gets. */
export type HistoryMode = "all" | "none";

/** ToolDecl is what is known of a tool before it is called. */
export interface ToolDecl {
  name: string;
  description: string;
  input_schema: unknown;
  output_schema?: unknown;
  effect: Effect; // empty means write
  reads?: string;
  confirm?: boolean;
  run?: RunBy; // empty: its toolset runs it
  subject?: string;
  path?: string;
  actuation?: boolean; // acts on the physical world, see Policy.AllowActuation
  asks?: boolean; // only asks a human; not offered where there is no human
  edits?: boolean; // changes only files of the session's workspace, see ModeAcceptEdits
  workspace_own?: boolean;
  web?: boolean;
  outward?: boolean;
  rule?: string;
  instead?: string;
  key_ttl?: Duration; // for idempotent tools: how long the service remembers keys
  timeout?: Duration; // per call; 0: the engine's default. For RunClient: from the claim to the report
  claim_within?: Duration; // for RunClient: how long a call waits for a client; 0: as long as for a human
  output_limit?: number; // bytes of output kept in the log; 0: the toolbox's default
  cost?: string; // free text for people, such as a price
  safety?: string;
  credentials?: CredentialDecl[];
}

/** CredentialDecl is a credential that a tool needs for each of its calls. */
export interface CredentialDecl {
  name: string;
  hosts: string[] | null; // the only hosts that it may be sent to, without ports
}

/** Budgets limit a turn. A zero field sets no limit. */
export interface Budgets {
  max_steps?: number;
  max_tool_calls?: number;
  max_duration_ms?: number; // counts only while the turn runs
  max_tokens_per_turn?: number; // soft: bounds each call's prompt
  max_total_tokens?: number; // hard: the sum over the turn
  max_usd?: number;
  max_depth?: number; // handoffs of one turn; also how deep sub-agents may start others
}

/** MemoryOptions is what a session remembers between turns. A zero field means as much as
 * fits the model, unless its comment says otherwise. */
export interface MemoryOptions {
  last_k?: number; // whole messages kept; up to 10 times as many for models that take more than 200,000 tokens; 0: as many as fit
  summary_tokens?: number; // size of the rolling summary of older turns; 0: no summary
  retrieve?: boolean; // look up snippets for each question, where a toolset can
  history_tokens?: number; // how much of the prompt history may fill; 0: as the model allows
}

/** ResumeMode is what happens to turns that a crash interrupted. */
export type ResumeMode = "manual" | "auto";

/** TTL is how long an app's data is kept. A zero field means for ever. Retention leaves
 * sessions alone that wait for a human. */
export interface TTL {
  session_idle?: Duration; // an active session expires after this long without an event
  turn_steps?: Duration; // the steps of a turn are condensed this long after its end; the messages stay
  ended?: Duration; // an ended or expired session is deleted after this long
  no_archive?: boolean; // delete the data without archiving it first
}

/** CallerTools sets the properties of all tools that a caller offers with a message. */
export interface CallerTools {
  effect?: Effect; // of each tool; empty: write
  timeout?: Duration; // see ToolDecl; 0: the engine's default
}

/** Transcript is the fold that people look at: every turn with its steps and its answer.
 * It is a view, paged from the log, and never needed to drive a session. The web page
 * folds the same events in TypeScript; testdata/logs holds logs and the expected result
 * for both. */
export interface Transcript {
  session: SessionID;
  app: string;
  title: string;
  status: SessionStatus;
  seq: number;
  restored?: RestoredView[]; // an earlier conversation, which the session continues
  turns: TurnView[] | null; // in the order in which they were asked, including queued ones and those that were taken back; null before the first
  rewinds?: RewindView[];
  rewinding?: boolean; // a rewind is restoring files
}

/** RestoredView is an exchange of an earlier conversation. */
export interface RestoredView {
  seq: number;
  message?: string;
  answer?: string;
}

/** TurnView is one turn as people see it. */
export interface TurnView {
  id: TurnID;
  status: TurnStatus;
  stopping?: boolean;
  resumes?: boolean; // interrupted, and goes on by itself
  seq: number; // the number of the event that began it; while it is queued, of the one that queued it
  rewound?: number; // the number of the rewind that took it back
  origin: Origin;
  message: string;
  resources?: ResourceRef[]; // attached to the message
  attachments?: Attachment[]; // files that the message has
  by?: string;
  client?: string;
  retry_of?: TurnID;
  asked_at: string;
  ended_at?: string;
  entry?: string; // the agent that answers the user
  steps: StepView[] | null;
  texts: TextView[] | null; // what models said, one per call
  answer?: string; // set when the turn has ended
  citations?: Citation[];
  follow_ups?: string[];
  error?: ErrorInfo;
  reason?: string;
  usage?: Usage;
  models: string[] | null; // the models that replied, each once
  warning?: string; // why the last doubtful reply is doubtful, as a sentence for people
  interactions?: Interaction[];
}

/** ResourceRef names a resource of an MCP server: a text or file that a user attaches to a
 * message. */
export interface ResourceRef {
  server: string;
  uri: string;
  title?: string;
}

/** Attachment is a file that a user gave to a session. A message has it when it names its ID in
 * [Send.Attachments]. */
export interface Attachment {
  id: ArtifactID;
  name: string;
  media_type: string;
  size: number;
  sha256?: Digest;
  image?: boolean;
  text?: number;
  cut?: boolean;
  unread?: string;
}

export type ArtifactID = string;

/** StepView is one line of a turn's thought process. */
export interface StepView {
  seq: number;
  at: string;
  type: StepType;
  agent?: string;
  tool?: string;
  call?: CallID;
  input?: unknown;
  result?: string;
  outcome?: Outcome;
  from?: string;
  to?: string;
  text?: string;
}

/** StepType says which fields of a StepView are set. */
export type StepType = "agent_start" | "tool_call" | "tool_result" | "handoff" | "note";

/** Outcome is how a tool call ended. */
export type Outcome = "ok" | "error" | "denied" | "cancelled" | "unknown";

/** TextView is what one model call said. While Open, deltas and partials of the call may
 * show more of its text; they are not part of this fold. */
export interface TextView {
  call: CallID;
  agent: string;
  text: string;
  open?: boolean;
  cut?: boolean;
}

/** Interaction is a request to a human, or the offer of a call to clients. The turn waits until
 * it is answered, declined or expired. While it waits, the turn needs nothing in memory. */
export interface Interaction {
  id: InteractionID;
  session: SessionID;
  turn: TurnID;
  agent?: AgentPath;
  kind: InteractionKind;
  call?: CallID; // the tool call it is about
  key?: string; // tells the call's own questions apart; empty for what others ask about the call
  tool?: string;
  input?: unknown;
  title: string;
  detail?: string; // of a call: what the title says, in the ids of its tool; shown small beside it
  text?: string;
  choices?: string[];
  questions?: Question[];
  url?: string; // for a question: a page that the person is asked to open; the text also contains it
  credentials?: string[];
  sampling?: string;
  reaches?: string[]; // for a permission: what the call acts on, if its tool can tell
  opened_at: string;
  expires_at?: string;
}

/** InteractionKind is what is asked of a human. */
export type InteractionKind = "question" | "permission" | "confirmation" | "credential" | "unknown" | "client";

/** Question is one structured question. */
export interface Question {
  question: string;
  header: string;
  options: Option[] | null;
  multi_select?: boolean;
}

/** Option is one of the offered answers. */
export interface Option {
  label: string;
  description?: string;
}

/** RewindView is a rewind as people see it. */
export interface RewindView extends Rewind {
  seq: number;
  at: string;
  files?: FileRewound[];
  files_more?: number;
  effects?: EffectLeft[];
  effects_more?: number;
  rewound?: number; // the number of the rewind that took this one back
}

/** FileRewound is a file in a rewind. */
export interface FileRewound {
  path: string; // relative to the workspace, using slashes
  outcome: FileOutcome;
  why?: string; // why it was left, as a sentence for people
  before?: Digest; // its content when it was rewound; empty: there was no file, or it is not known
  after?: Digest; // its content at event To; empty: there was no file, or it is not known
  diff?: string;
  added?: number; // lines
  removed?: number; // lines
}

/** FileOutcome is what became of a file in a rewind. */
export type FileOutcome = "restored" | "same" | "left";

/** EffectLeft is a call that had an effect which a rewind does not undo, or may have had one. */
export interface EffectLeft {
  call: CallID;
  turn: TurnID;
  tool: string;
  text?: string; // what it did, on one line
  outcome: Outcome; // ok or unknown
  resolution?: string;
}

/** Rewind takes a session back to what it was at event To. The log keeps everything: folds skip
 * the events after To up to the rewind. Undoing a rewind is another one, to the event before it. */
export interface Rewind {
  id: RewindID;
  what: RewindWhat;
  to: number;
  turn?: TurnID; // the turn that began after To; empty when a rewind is undone
  undoes?: number; // the number of the session.rewound event that is undone
  by?: string;
  client?: string; // the door that it came through
}

/** LoginAnswer is the query with which an authorization server redirects the user's browser back
 * to this server. */
export interface LoginAnswer {
  state: string;
  code?: string;
  iss?: string;
  error?: string; // instead of a code; such as access_denied
}

/** LoginFinished is a login after the authorization server's answer was processed. */
export interface LoginFinished {
  login: Login;
  denied?: boolean; // the user or the authorization server refused
  continues?: boolean; // a call waited for this login; its turn goes on
}

/** Login is a user's login at another service, such as an MCP server. Its tokens are stored
 * encrypted and are never shown. */
export interface Login {
  id: string;
  app: string;
  workspace?: Workspace; // the workspace whose file names the server; empty: the app's settings name it
  server: string; // its name in that file
  resource: string; // the server's URL
  issuer?: string; // the authorization server; empty: the user has never logged in
  scopes?: string[]; // the scopes that were requested
  since?: string; // zero: not logged in
  until?: string; // when the present token expires; zero: not known, or not logged in
  renews?: boolean; // the token is renewed automatically
  waiting?: boolean; // a login has begun and is not finished
}

/** WorkspaceInfo describes a workspace that a user may work in. */
export interface WorkspaceInfo {
  app: string;
  name: Workspace;
  kind: WorkspaceKind;
  read_only?: boolean;
  default?: boolean;
  lake?: boolean; // its Markdown files are entities of a lake
}

/** WorkspaceKind says why a user may work in a workspace. */
export type WorkspaceKind = "own" | "shared" | "granted";

/** CreateWorkspace makes a workspace of the user's own. */
export interface CreateWorkspace {
  app: string;
  name: Workspace; // at most 64 letters, digits, spaces and . _ -
}

/** FileTree is a page of a workspace's tree. A folder comes right before what is in it; within a
 * folder, entries are in the order of the bytes of their names. */
export interface FileTree {
  entries: FileEntry[] | null;
  next?: string; // what to ask for next; empty: this is the last page
}

/** FileEntry is one line of a workspace's tree. */
export interface FileEntry {
  path: string; // relative to the workspace, with slashes
  kind: FileKind;
  size?: number; // bytes; of a file only
  modified?: string;
  ignored?: boolean;
}

/** FileKind says what a name in a workspace stands for. */
export type FileKind = "file" | "folder" | "link" | "other";

/** FileContent is a file with its text, or a part of it. */
export interface FileContent extends FileInfo {
  text?: string;
  line?: number; // the number of the first line of the text, from 1
  lines?: number; // of the whole file
  next_line?: number;
  cut?: boolean;
}

/** FileInfo describes a file. */
export interface FileInfo {
  path: string;
  version: Digest; // the SHA-256 of its content
  size: number; // bytes
  modified: string;
  media_type: string; // what its content is sent as
}

/** FileHistory is a page of the versions of a file, the newest first. Where the workspace is in a git
 * repository they are commits; elsewhere they are changes by the user's own sessions. */
export interface FileHistory {
  versions: FileVersion[] | null;
  next?: string; // what to ask for next; empty: this is the last page
}

/** FileVersion is a version of a file in its history. */
export interface FileVersion {
  id: string;
  at: string;
  author?: string;
  subject?: string;
  session?: SessionID;
  turn?: TurnID;
  deleted?: boolean; // the file was deleted
  moved_from?: string;
}

/** Backlinks are the notes of a workspace that link to a file, in the order of their paths. */
export interface Backlinks {
  links: Backlink[] | null;
  partial?: boolean; // not all notes were looked at, or there are more
}

/** Backlink is a line of a note with a link to a file. */
export interface Backlink {
  path: string;
  line: number; // from 1
  text: string; // the line, or its beginning
}

/** WriteFile is the new content of a file: a text, or any bytes. */
export interface WriteFile {
  text?: string;
  base64?: string;
  version?: Digest;
}

/** MoveFile gives a file another path. */
export interface MoveFile {
  to: string;
  version: Digest; // of the file that is moved
}

/** RewindResult is what a rewind did, or in a preview what it would do. */
export interface RewindResult extends Rewind {
  session_id: SessionID;
  seq?: number; // the number of its session.rewound event, which undoes it; 0 in a preview
  version: number; // of the session; for expected_version after a preview
  message?: string; // the message that it goes back to
  turns: RewoundTurn[] | null; // taken back, the oldest first
  turns_more?: number;
  back?: RewoundTurn[]; // brought back, the oldest first
  back_more?: number;
  files: FileRewound[] | null; // changed after that point, first those that are left
  files_more?: number;
  effects: EffectLeft[] | null; // done after that point, and not undone
  effects_more?: number;
}

/** RewoundTurn is a turn that a rewind takes back or brings back. */
export interface RewoundTurn {
  id: TurnID;
  message: string; // at most 200 characters
  status: TurnStatus;
  at: string;
}

/** Device is something of a user's that is notified when a turn ends or waits. */
export interface Device {
  id: DeviceID;
  kind: DeviceKind;
  name: string;
  url?: string;
  events?: string[];
  apps?: string[]; // empty: all
  paused?: boolean;
  secret?: string;
  created_at: string;
  delivered_at?: string; // the last time that something arrived
  failures?: number; // attempts that failed since
  last_error?: string;
  dropped?: number; // messages for which there was no room, ever
}

/** DeviceID identifies a device. */
export type DeviceID = string;

/** DeviceKind says how a device is notified. */
export type DeviceKind = "webhook" | "webpush" | "fcm";

/** AddDevice registers a device. */
export interface AddDevice {
  kind: DeviceKind;
  name?: string;
  events?: string[];
  apps?: string[];
  url?: string;
  secret?: string;
  subscription?: WebPushSubscription;
  token?: string;
}

/** WebPushSubscription is what a browser's push service gave to a page. */
export interface WebPushSubscription {
  endpoint: string;
  expirationTime?: number;
  keys: PushKeys;
}

/** PushKeys encrypt what is sent to a browser, in base64url. */
export interface PushKeys {
  p256dh: string;
  auth: string;
}

/** UpdateDevice changes a device. What is left out stays. */
export interface UpdateDevice {
  name?: string;
  events?: string[];
  apps?: string[];
  paused?: boolean;
  new_secret?: boolean;
}

/** Delivery is a message to a device that has not arrived. */
export interface Delivery {
  id: DeliveryID;
  device: DeviceID;
  type: string; // of the event, or test
  session?: SessionID;
  turn?: TurnID;
  at: string; // of the event
  dead?: boolean; // it was given up
  attempts: number;
  next_at?: string;
  error?: string; // of the last attempt
}

/** DeliveryID identifies a delivery. */
export type DeliveryID = string;

/** Notify is what a user wants to be told on the devices that people look at. */
export interface Notify {
  waits: boolean; // when a turn waits for an answer
  ends: boolean; // when a turn has ended
  after_seconds: number;
  quiet?: QuietHours;
}

/** QuietHours are the same each day. */
export interface QuietHours {
  from: string; // such as 22:00
  to: string;
  time_zone: string; // such as Europe/Zurich
}

/** PushInfo is what a client needs to register a device. */
export interface PushInfo {
  kinds: DeviceKind[] | null;
  key?: string;
}

/** Schedule begins turns at times, without anybody asking. */
export interface Schedule extends ScheduleSpec {
  id: ScheduleID;
  from_app?: boolean;
  paused: boolean;
  why?: string;
  next_at?: string; // zero while it is paused, or when there is no further time
  last?: ScheduleRun;
  created_at: string;
  updated_at: string;
  version: number; // for expected_version
}

/** ScheduleID identifies a schedule. */
export type ScheduleID = string;

/** ScheduleRun is one time of a schedule and what came of it. */
export interface ScheduleRun {
  id: ScheduleRunID;
  for: string; // the time by the expression
  at: string; // when it was begun or given up
  manual?: boolean;
  change?: string; // the last commit of the changes that it is about
  outcome: ScheduleOutcome;
  reason?: string; // why it was not begun
  missed?: number; // times that passed before it without a run of their own
  session_id?: SessionID;
  turn_id?: TurnID;
  status?: TurnStatus; // of the turn now; empty: there is none, or it was deleted
  says?: string; // the beginning of the turn's answer, or of its error
}

/** ScheduleRunID identifies a run of a schedule. */
export type ScheduleRunID = string;

/** ScheduleOutcome is what became of a run. */
export type ScheduleOutcome = "begun" | "skipped" | "missed" | "failed";

/** ScheduleSpec is what a schedule does, and when. */
export interface ScheduleSpec {
  app: string;
  name?: string; // for people, and the title of new sessions; empty: the beginning of the message
  cron: string;
  on_change_seconds?: number;
  time_zone?: string;
  jitter_seconds?: number;
  missed?: MissedPolicy;
  overlap?: OverlapPolicy;
  message: string;
  session?: ScheduleSession;
  session_id?: SessionID; // with same: that session; empty: one that the first run makes
  agent?: string; // the agent that gets the message; empty: the app's entry agent
  model?: string;
  mode?: PermissionMode; // of sessions that the schedule makes
  workspace?: Workspace; // the same
  budgets?: Budgets; // of each turn
  asks?: ScheduleAsks;
}

/** MissedPolicy is what becomes of the times of a schedule that passed while no server ran. */
export type MissedPolicy = "skip" | "once" | "all";

/** OverlapPolicy is what becomes of a run that is due while the one before has not ended. */
export type OverlapPolicy = "skip" | "queue" | "cancel";

/** ScheduleSession is where the message of a schedule goes. */
export type ScheduleSession = "new" | "same";

/** ScheduleAsks is who answers what a turn of a schedule asks. */
export type ScheduleAsks = "nobody" | "owner";

/** UpdateSchedule changes a schedule. What is left out stays. */
export interface UpdateSchedule {
  name?: string;
  cron?: string;
  time_zone?: string;
  on_change_seconds?: number;
  jitter_seconds?: number;
  missed?: MissedPolicy;
  overlap?: OverlapPolicy;
  message?: string;
  session?: ScheduleSession;
  session_id?: SessionID;
  agent?: string;
  model?: string;
  mode?: PermissionMode;
  workspace?: Workspace;
  budgets?: Budgets;
  asks?: ScheduleAsks;
  paused?: boolean;
  expected_version?: number;
}

/** Proposal is a branch of a lake's repository with changes that an agent proposes, one commit for
 * each finding. Nothing of it is in the lake before a person applies it. */
export interface Proposal {
  id: ProposalID;
  title: string;
  at: string;
  by?: string; // the user for whom the agent worked
  app?: string;
  session_id?: SessionID; // in which it was made
  turn_id?: TurnID;
  branch: string;
  base: string; // the commit that it is based on
  version: string; // of its report; whoever decides says which one was read
  report: string; // in Markdown; empty in lists
  problem?: string;
  counts: Record<string, number>;
  findings?: ProposalFinding[];
}

/** ProposalID identifies a proposal in its lake. */
export type ProposalID = string;

/** ProposalFinding is something that is wrong in a lake, and the change that would mend it. */
export interface ProposalFinding {
  id: string;
  kind: string; // broken-link, front-matter, duplicate, orphan, stale or contradiction
  path: string;
  line?: number;
  other?: string; // the page that Path doubles or contradicts
  why: string;
  mends?: string; // what its change does; empty: it has none, and a person has to decide
  says?: string;
  other_says?: string;
  diff?: string;
  diff_cut?: boolean;
  status: FindingStatus;
  reason?: string; // why it is stale
  commit?: string; // that applied it
  by?: string; // who rejected it
}

/** FindingStatus is what became of a finding. */
export type FindingStatus = "open" | "applied" | "rejected" | "stale";

/** DecideFindings says which findings of a proposal are meant. */
export interface DecideFindings {
  findings?: string[];
  all?: boolean; // all that are open, but those whose difference is cut
  version?: string;
}

/** Entity is a Markdown file of a lake, which is a git repository of such files. */
export interface Entity {
  path: string; // from the lake's folder, with slashes
  kind: string; // of its front matter, or else by its folder: role, doc, note or page
  title: string;
  tags: string[] | null;
  created?: string;
  updated?: string;
  owner?: string;
  status?: string;
  version: string;
  size: number; // bytes
  front?: Record<string, unknown>;
  links?: EntityLink[];
  faults?: EntityFault[];
  body?: string;
}

/** EntityLink is a link of an entity. */
export interface EntityLink {
  text?: string; // what is shown, if it is not the target
  target: string; // as it is written, without the heading
  heading?: string;
  path?: string; // the file that it leads to, or the folder, which ends with a slash; empty: it is broken
  line: number; // from 1
  kind: string; // wiki or markdown
  broken?: boolean;
}

/** EntityFault is something that is wrong in an entity. */
export interface EntityFault {
  path: string;
  line: number; // from 1
  rule: string; // such as broken-link, front-matter
  message: string;
}

/** EntityList is a page of entities, in the order of the bytes of their paths. */
export interface EntityList {
  entities: Entity[] | null;
  next?: string; // what to ask for next; empty: this is the last page
}

/** EntityHits is a page of what a search found, the best first. */
export interface EntityHits {
  hits: EntityHit[] | null;
  next?: string;
  partial?: boolean;
}

/** EntityHit is an entity that a search found. */
export interface EntityHit extends Entity {
  snippet?: string;
  score: number; // the higher the better
}

/** EntityFaults is a page of what is wrong, in the order of the entities and their lines. */
export interface EntityFaults {
  faults: EntityFault[] | null;
  next?: string;
}

/** EntityGraph is the entities of a lake and the links among them. It is whole; Cut says that there is more. */
export interface EntityGraph {
  nodes: EntityNode[] | null;
  edges: EntityEdge[] | null;
  broken: number; // links that lead nowhere
  cut?: boolean;
}

/** EntityNode is an entity in a graph. */
export interface EntityNode {
  path: string;
  title: string;
  kind: string;
}

/** EntityEdge says how many links lead from one entity to another. */
export interface EntityEdge {
  from: string;
  to: string;
  n: number;
}

/** LakeFeed is a page of the changes of a lake, the oldest first. */
export interface LakeFeed {
  changes: LakeChange[] | null;
  cursor: string; // for the next page, also when this one is empty
  more?: boolean;
  reset?: boolean;
}

/** LakeChange is a commit of a lake, as the feed of changes has it. */
export interface LakeChange {
  commit: string;
  cursor: string; // to go on behind this change
  at: string;
  author: string;
  reason: string;
  changed: LakeTouched[] | null;
  cut?: boolean; // it changed more files than are listed
}

/** LakeTouched is a file of a change. */
export interface LakeTouched {
  path: string;
  what: string; // created, updated or deleted
}

/** HistoryRestored is an exchange of an earlier conversation that the session continues. These
 * events follow session.created, in the order of that conversation. */
export interface HistoryRestored {
  user?: string;
  reply?: string;
}

/** MemoryUpdated changes the fields that are set. If Through is set, the exchanges up to
 * and including that number are now in the summary and no longer in the prompt. */
export interface MemoryUpdated {
  summary?: string;
  facts?: Fact[]; // replaces all facts
  pins?: Pin[]; // replaces all pins
  through?: number;
  dropped?: number; // exchanges that left the prompt
  by?: string; // a user, or "memory"
  told?: string[];
}

/** Fact is a lasting insight and its source. */
export interface Fact {
  text: string;
  source?: string;
  seq?: number; // the last event it was drawn from
  time?: string;
}

/** Pin is a text that is part of every prompt. */
export interface Pin {
  label: string;
  text: string;
}

/** ContextRetrieved adds snippets and the session's attached entities to the prompts of its turn. */
export interface ContextRetrieved {
  snippets: Snippet[] | null;
  entities?: AttachedEntity[];
}

/** Snippet is something that was looked up for a turn. */
export interface Snippet {
  source: string;
  ref: string;
  text: string;
  pinned?: boolean; // looked up because the turn before was about it
}

/** AttachedEntity is an attached entity as the prompts of a turn show it. It was read when the turn
 * began. */
export interface AttachedEntity extends EntityRef {
  version?: Digest; // the SHA-256 of the whole file
  text?: string;
  cut?: boolean; // Text is only the beginning
  why?: string; // why there is no text, as a sentence for the model
}

/** SessionCreated is event 1 of every log. */
export interface SessionCreated {
  app: string;
  user: string;
  org?: string;
  title?: string;
  model?: string;
  runtime?: string; // carries out its turns in place of the app's
  temperature?: number;
  max_output?: number; // tokens per reply; lowers the agents' limits
  mode?: PermissionMode;
  policy?: Policy; // narrows the app's
  budgets: Budgets;
  memory: MemoryOptions;
  busy: BusyMode;
  max_open_turns: number;
  preferences?: Record<string, unknown>;
  outside_id?: string;
  temporary?: boolean; // ends with its first turn
  direct?: boolean; // made for one direct call
  in_force?: InForce; // the app's settings when the session was created
  workspace?: Workspace;
  read_only?: boolean; // nothing in the workspace is changed
  attached_entities?: EntityRef[];
  max_budget_usd?: number; // what all turns together may cost
}

/** InForce holds an app's settings that apply to a session which does not set its own: the
 * app's policy, and the model of its first agent. */
export interface InForce {
  model?: string;
  policy: Policy; // without rules
}

/** SessionUpdated changes the fields that are set. */
export interface SessionUpdated {
  title?: string;
  model?: string;
  runtime?: string;
  temperature?: number;
  max_output?: number;
  mode?: PermissionMode;
  busy?: BusyMode;
  preferences?: Record<string, unknown>; // replaces all preferences
  rules?: Rule[]; // replaces the rules granted for the session
  attached_entities?: EntityRef[]; // replaces what is attached
  by?: string;
}

/** SessionEnded closes a session for good. */
export interface SessionEnded {
  status: SessionStatus; // ended or expired
  reason?: string;
  by?: string;
}

/** SessionForked comes right after the events copied from Parent, up to and including At.
 * It drops what a fork does not take over: rules, open interactions, the queue and
 * provider state. */
export interface SessionForked {
  parent: SessionID;
  at: number;
  title?: string;
  by?: string;
  workspace?: Workspace;
  read_only?: boolean;
}

/** TurnStarted opens a turn. */
export interface TurnStarted extends TurnRequest {
  app: Digest; // the resolved App, whose body is a blob
  zone?: Zone;
  in_force?: InForce;
  hook_due?: boolean;
}

/** Zone is a time zone at one moment. It keeps the offset, so times written with it do not
 * depend on where and when it is read. */
export interface Zone {
  name: string; // such as Europe/Berlin
  offset: number; // seconds east of UTC
}

/** TurnRequest is what a turn was asked. Queued and started turns carry it. */
export interface TurnRequest {
  origin: Origin;
  message: Message;
  call?: ToolCall; // for OriginCall
  model?: string;
  hints?: Record<string, unknown>;
  budgets: Budgets; // already narrowed for this turn
  key?: string;
  client?: string; // the door it came through
  by?: string;
  retry_of?: TurnID;
  no_tools?: boolean;
  tools?: ToolDecl[]; // the tools that the caller offered, as agents see them
  schedule?: Scheduled;
}

/** Message is one thing that was said. */
export interface Message {
  role: Role;
  parts: Part[] | null;
}

/** Role is the speaker of a message. */
export type Role = "user" | "assistant" | "tool";

/** Part is a piece of a message. */
export interface Part {
  type: PartType;
  text?: string;
  call?: CallID;
  provider_id?: string; // the provider's own id of the call; may repeat or be empty
  name?: string;
  input?: unknown;
  redacted?: boolean; // the secrets of Input were taken out
  is_error?: boolean;
  cut?: boolean; // the text ends early: the call was cut off, or a resource is shortened
  artifact?: ArtifactID;
  media_type?: string;
  size?: number; // of the artifact, in bytes; 0: not known
  whole?: ArtifactID; // of an attachment: the artifact with its text
  server?: string; // of a resource: the MCP server that it is from
  uri?: string; // of a resource
  title?: string; // of a resource: what people are shown
  signature?: unknown;
  provider?: string;
}

/** PartType says which fields of a Part are set. */
export type PartType = "text" | "thinking" | "tool_call" | "tool_result" | "handoff" | "image" | "file" | "provider" | "command" | "resource" | "attachment";

/** ToolCall is a request by a model or a client to run a tool. */
export interface ToolCall {
  call: CallID;
  agent?: AgentPath;
  name: string;
  input: unknown;
  redacted?: boolean;
}

/** Scheduled is what a turn knows of the schedule that began it. */
export interface Scheduled {
  id: ScheduleID;
  run?: ScheduleRunID;
  agent?: string; // gets the message; empty: the app's entry agent
  asks?: boolean; // the owner is asked, and the turn waits for the answer
}

/** TurnQueued puts a turn behind the open one. It releases a held queue, unless it is
 * Late. */
export interface TurnQueued extends TurnRequest {
  next?: boolean;
  late?: boolean;
}

/** TurnSteered is a message for the agent's next step. */
export interface TurnSteered {
  message: Message;
  key?: string;
  by?: string;
}

/** TurnStopRequested records a request to stop a turn that cannot end at once: a started
 * write has to finish first, or another turn runs next. After a crash it is the reason to
 * cancel the turn instead of resuming it. */
export interface TurnStopRequested {
  reason?: string;
  by?: string;
}

/** TurnInterrupted is appended by recovery only: when it finds a turn that its last owner
 * left running, and once more when such a turn does not go on by itself after all. */
export interface TurnInterrupted {
  reason: string;
  resumes?: boolean;
  last?: string;
}

/** TurnResumed counts an attempt to continue an interrupted turn. */
export interface TurnResumed {
  attempt: number;
  auto?: boolean;
  by?: string;
}

/** TurnCompleted ends a turn successfully. */
export interface TurnCompleted {
  response: Response;
  usage: Usage;
}

/** TurnFailed ends a turn with an error. Response is the answer so far. */
export interface TurnFailed {
  error: ErrorInfo;
  response?: Response;
  usage: Usage;
}

/** TurnCancelled ends a turn on request, or before it began. */
export interface TurnCancelled {
  reason?: string;
  by?: string; // a user, or "superseded", "session_ended", "forked"
  response?: Response;
  usage: Usage;
}

/** TurnExpired ends a turn that was not answered or resumed in time. */
export interface TurnExpired {
  reason?: string;
  usage: Usage;
}

/** AgentStarted opens an instance of an agent: the entry agent of a turn, or a
 * sub-agent of Parent. The event's Agent is its path. */
export interface AgentStarted {
  name: string;
  parent?: AgentPath;
  call?: CallID; // the call in the parent's reply, for a sub-agent
  input?: string; // a sub-agent's task
  title?: string; // the task in a few words, for people
  background?: boolean;
}

/** AgentHandoff gives the turn to another agent and starts it. The event's Agent is the
 * one that hands off. */
export interface AgentHandoff {
  from: AgentPath;
  to: AgentPath;
  name: string; // the receiving agent's definition
  why?: string;
  call?: CallID;
}

/** AgentEnded closes a sub-agent, and those below it that have not ended. */
export interface AgentEnded {
  result?: string;
  outcome: Outcome;
  told?: boolean;
}

/** ModelStarted is committed before the request is sent. Reserved is the most the call may
 * cost; a call without a reply counts as that. */
export interface ModelStarted {
  call: CallID;
  model: string;
  context: Digest; // digest of the request's JSON
  reserved: Usage;
  window?: number; // the model's whole context window in tokens, as known then
  for?: Sampling;
}

/** Sampling is the request of a tool's server for a reply of the app's model, in the middle of
 * a call. No agent sees the reply: it goes to the server, which makes of it what it likes.
 * The events of the model call have a path of [AgentPath.Sampling]. */
export interface Sampling {
  call: CallID; // of the tool
  key: string; // tells the requests of the call apart
  server: string;
  system?: string;
  messages: Message[] | null; // texts
  max_tokens: number;
  hints?: string[]; // parts of names of models that the server would like, best first
}

/** ModelReplied is the authoritative record of what a call said. */
export interface ModelReplied {
  call: CallID;
  model: string; // the model's name in the provider's answer
  parts: Part[] | null;
  usage: Usage;
  stop_reason?: string;
  ttft_ms?: number; // from the request to the first fragment
  took_ms?: number;
  state?: unknown;
  citations?: Citation[]; // what the provider's own tools found
  warning?: string; // why the reply is doubtful, as a sentence for people
}

/** ModelFailed ends a call without a reply. Partial is the text before the failure. */
export interface ModelFailed {
  call: CallID;
  error: ErrorInfo;
  retry?: boolean; // the loop will call again
  partial?: string;
  usage: Usage; // what the call counts as
  fallback?: string;
}

/** ToolRequested is a model's request to call a tool, in the same append as its
 * model.replied. Call is the idempotency key for good. */
export interface ToolRequested {
  call: CallID;
  name: string;
  input: unknown;
  redo?: CallID; // a human asked to do this unknown call again
  redacted?: boolean;
}

/** ToolStarted is committed before a call with effects is made. */
export interface ToolStarted {
  call: CallID;
  name: string;
  input: unknown; // the input that is used: a person may have edited it
  effect: Effect;
  grant?: InteractionID;
  deadline: string;
  attempt: number; // from 1; above 1 only for reads and idempotent calls
  reaches?: string[]; // what it acts on, if its tool can tell
  redacted?: boolean; // see ToolRequested; the tool itself got the secrets
  run?: RunBy; // who runs it, see ToolDecl
  claim?: Claim; // for RunClient: the client that claimed it
  web?: boolean; // the result holds what strangers wrote, see ToolDecl
  subject?: string;
}

/** Claim says which client has claimed a call. The client may report until the call's deadline. */
export interface Claim {
  interaction: InteractionID; // the offer that was claimed
  by?: string;
  client?: string; // the door it came through
  proof: Digest;
}

/** ToolEnded is a call's outcome. */
export interface ToolEnded extends ToolResult {
  name: string;
  effect?: Effect;
  took_ms?: number;
  report?: Digest;
  hook_due?: boolean;
}

/** ToolResult is what a call returned. Output is what the model sees: text, or JSON if the
 * tool declares an output schema. */
export interface ToolResult {
  call: CallID;
  outcome: Outcome;
  output: string;
  data?: unknown; // structured output, checked against the schema
  artifact?: ArtifactRef; // the whole result, if Output is only its beginning
  images?: ArtifactRef[];
  error?: ErrorInfo;
  about?: string[];
}

/** ArtifactRef points to a large result that is stored separately. */
export interface ArtifactRef {
  id: ArtifactID;
  name: string;
  media_type: string;
  size: number;
  sha256: Digest;
}

/** InteractionOpened asks a human. */
export interface InteractionOpened extends Interaction {
}

/** InteractionAnswered is the first answer; there is no second. */
export interface InteractionAnswered {
  id: InteractionID;
  answer: Answer;
  by?: string;
  client?: string;
  redacted?: boolean;
}

/** Answer is what a human said. */
export interface Answer {
  choice: string;
  text?: string; // a message that comes with a denial
  input?: unknown; // the edited input of an allowed call
  answers?: Record<string, string>; // question text → the chosen label, or free text
}

/** InteractionExpired closes an interaction that nobody answered in time, or
 * whose turn ended. */
export interface InteractionExpired {
  id: InteractionID;
  reason?: string;
}

/** HistoryCondensed says that retention removed the data of the step events From to To.
 * The stretch ends with the end of a turn. Turns keeps what folds need, so a fold of any
 * version still begins at event 1. Archive names where the whole events are. If To is 0,
 * nothing was removed. */
export interface HistoryCondensed {
  from: number;
  to: number;
  archive?: string;
  turns?: CondensedTurn[]; // the turns that ended in the stretch, in log order
  next?: string; // when the oldest turn ended whose steps are not condensed yet
  base?: unknown;
  version?: number;
}

/** CondensedTurn is what folds keep of a turn whose steps were condensed: everything that
 * the end of a turn adds to a Session, except provider state. */
export interface CondensedTurn {
  turn: TurnID;
  spent: Spent;
  effects?: Effected[]; // its calls with effects
  answered?: Record<string, string>; // by agent name: the last model that replied
  results?: string[]; // see Exchange; empty in logs from fold versions before 10
  about?: string[]; // see Session; empty in logs from fold versions before 10
  through?: number; // from its last context.compacted
  unread?: boolean; // hooks kept its message from all models
}

/** Effected is a call with effects and its outcome. */
export interface Effected {
  call: CallID;
  tool: string;
  outcome: Outcome;
  resolution?: string; // a person's decision about an unknown outcome
}

/** ContextCompacted removes the exchanges up to and including Through from the prompt;
 * they stay in the log. */
export interface ContextCompacted {
  through: number;
  dropped: number;
  tokens_before: number;
  tokens_after: number;
}

/** ContextObserved is an outside event that concerns the turn, such as a state that
 * changed. It is shown to people and never put into a prompt. */
export interface ContextObserved {
  source: string; // who saw it, such as homeassistant
  ref: string; // what it happened to, such as an entity
  text: string;
  at: string;
}

/** ContextTransferred says that a model takes over the session from another. Text is what
 * its prompts of this turn say about that. */
export interface ContextTransferred {
  from: string;
  to: string;
  text: string;
}

/** ArtifactStored says that a large result was stored as an artifact. */
export interface ArtifactStored extends ArtifactRef {
  call?: CallID;
}

/** BudgetReached precedes the turn.failed that it causes. */
export interface BudgetReached {
  name: string; // steps, tool_calls, duration, tokens, usd, depth
  limit: number;
  used: number;
  needs?: number; // the least the next step would need, if known
}

/** HookRan records that a hook ran, and what it decided. */
export interface HookRan {
  event: string; // the hook event, such as PreToolUse
  name: string;
  call?: CallID; // the tool call that it ran for
  decision?: Verdict; // empty: none
  reason?: string;
  error?: ErrorInfo; // why the hook failed
  took_ms?: number;
  subject?: string; // what the matcher was compared with, if not a tool
  steers?: boolean;
  from?: string;
  input?: unknown; // the call's new input
  output?: string; // the call's output as the model sees it
  context?: string; // shown to the model
  message?: string; // shown to people
}

/** FilesAnnounced is committed before a call changes files in the session's workspace. Paths are
 * relative to the workspace and use slashes. */
export interface FilesAnnounced {
  call: CallID;
  paths: string[] | null;
}

/** FilesSaved lists the files in the session's workspace that a call has changed. */
export interface FilesSaved {
  call?: CallID;
  files: FileSaved[] | null;
}

/** FileSaved is a file before and after a change. */
export interface FileSaved {
  path: string; // relative to the workspace, using slashes
  before?: Digest; // empty: the file did not exist
  after?: Digest; // empty: the file was deleted
  diff?: string;
  added?: number; // lines
  removed?: number; // lines
}

/** RuntimeNoted is a note for people about a turn that only its runtime can make, such as that a
 * process was restarted. It is never put into a prompt. */
export interface RuntimeNoted {
  kind: string; // a short name in the runtime's own words
  text: string; // for people
  call?: CallID;
  data?: unknown;
}

/** RuntimeKept says that a runtime has stored its own state of the session, replacing the
 * previous one. The state is a blob. It is a cache: everything that matters is in the log. */
export interface RuntimeKept {
  runtime: string;
  sha256?: Digest; // empty: there is no usable state any more
  size?: number; // in bytes
  entry?: string; // which entry of the state corresponds to the log's end, in the runtime's own terms
  afresh?: boolean;
}

/** SessionRewinding says that a rewind has begun to restore files. Its session.rewound follows, after
 * a crash, too. Until then no turn begins. */
export interface SessionRewinding extends Rewind {
}

/** SessionRewound is a rewind. */
export interface SessionRewound extends Rewind {
  files?: FileRewound[];
  files_more?: number; // further files
  effects?: EffectLeft[];
  effects_more?: number; // further effects
  memory?: Remembered;
}

/** Remembered is what a session knew at an event, as far as a later fold does not know it. */
export interface Remembered {
  summary?: string; // nil: it is still the same
  facts?: Fact[]; // nil: they are still the same
  pins?: Pin[]; // nil: they are still the same
  since?: number; // earlier exchanges were not in prompts any more
  without?: number[]; // exchanges that a retry had replaced, by their number
  history?: Exchange[]; // exchanges that have left the fold since, or that an earlier rewind took out of it
  about?: string[];
  answered?: Record<string, string>;
  preview?: string;
  last?: TurnRef;
  taken?: TakenBack;
}

/** Exchange is an earlier turn as later prompts show it. */
export interface Exchange {
  turn: TurnID;
  seq: number; // the event that ended the turn
  user: Message;
  reply?: string;
  status: TurnStatus;
  effects?: Effected[]; // its calls with effects
  results?: string[]; // one line for each of its last tool calls: the tool, its input, its result
  taken?: TakenBack; // what its prompts said about rewinds before it
  restored?: boolean;
}

/** TakenBack is what prompts have to say after rewinds: what was done in the part that was taken
 * back, and which files are not as the conversation has them. */
export interface TakenBack {
  conversation?: boolean; // not only files
  effects?: EffectLeft[];
  effects_more?: number;
  files?: string[];
  files_more?: number;
}
