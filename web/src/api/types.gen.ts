// Code generated from package parley by go test ./web -run TestTypes -update; DO NOT EDIT.

/** What commands may carry: characters, and bytes of a pin. */
export const limits = { title: 200, reason: 2000, answer: 4096, pin: 32768, pins: 32 } as const;

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
}

/** What Parley calls its kinds of events. */
export const eventTypes = [
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
] as const;

export type SessionID = string;

export type TurnID = string;

/** AgentPath names one instance of an agent within a turn: "interface", or
 * "lead/research#2" for the second research sub-agent that lead started. */
export type AgentPath = string;

/** Delta is a fragment in flight. It is not history and is never stored as an
 * event: the model.replied or tool.ended of its call is the authority. */
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

/** ErrorInfo is the form of an Error inside events and on the wires. */
export interface ErrorInfo {
  code: Code;
  message: string;
  hint?: string;
  field?: string;
  retry_after_ms?: number;
}

/** Code classifies an error for programs. Codes are part of every wire; they are
 * only ever added to. */
export type Code = "invalid" | "not_found" | "unauthenticated" | "forbidden" | "busy" | "conflict" | "key_reused" | "too_large" | "rate_limited" | "quota" | "unavailable" | "fenced" | "condensed" | "upgrade_required" | "timeout" | "cancelled" | "model_error" | "tool_error" | "internal" | (string & {});

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
  model?: string; // its own, or else the app's when its last turn began
  policy?: Policy; // what holds, without rules: the app's when its last turn began, narrowed by its own
  busy: BusyMode;
  parent?: SessionID;
  direct?: boolean; // made for one direct call: listed only for who asks for such, deleted after a week
  created_at: string;
  updated_at: string;
  steps_since?: string; // when the oldest turn ended whose steps are not condensed
  version: number; // number of the last event
  turn?: TurnRef; // the open or interrupted turn
  queue?: TurnID[]; // turns that wait behind it
  waiting: number; // open interactions
  totals: Totals;
}

/** SessionStatus is where a session is in its life. */
export type SessionStatus = "active" | "ended" | "expired";

/** Policy is what an app lets its agents do. Of the rules that match a call the
 * strictest holds: deny, then ask, then allow. When none matches, reads are
 * allowed and everything else is asked for. */
export interface Policy {
  rules?: Rule[];
  unattended?: boolean;
  allow_actuation?: boolean;
  allowlisted_services?: string[];
  modes?: PermissionMode[];
  fixed_model?: boolean;
  answer_within?: Duration;
}

/** Rule is a yes, no or ask for a pattern of calls. Tool is a tool's name, the
 * beginning of one followed by "*", or either of them with a pattern of the
 * call's subject in parentheses, such as "ha_call_service(light.*)"; there "*"
 * stands for any characters. An empty Tool matches every tool. Effect, when
 * set, narrows the rule to tools of that effect. */
export interface Rule {
  verdict: Verdict;
  tool?: string;
  effect?: Effect;
  reason?: string; // shown to the model and to people
  reaches?: string[];
}

/** Verdict of a policy over a call. */
export type Verdict = "allow" | "ask" | "deny";

/** Effect is what a call of a tool may do to the world. */
export type Effect = "read" | "idempotent" | "write";

/** PermissionMode is how much a session asks before it acts. None allows what a
 * rule denies. */
export type PermissionMode = "default" | "acceptEdits" | "plan" | "bypassPermissions";

/** Duration is a time.Duration that reads and writes as text ("1.5s") in JSON
 * and YAML. */
export type Duration = string;

/** BusyMode is what a message does while a turn runs, waits for a human, or is
 * about to be resumed by itself. Where nothing is open, it begins a turn at once,
 * or lets a queue go on that was held. */
export type BusyMode = "reject" | "enqueue" | "interrupt" | "steer";

/** TurnRef names a turn and where it is. */
export interface TurnRef {
  id: TurnID;
  status: TurnStatus;
}

/** TurnStatus is where a turn is in its life. */
export type TurnStatus = "pending" | "running" | "streaming" | "waiting" | "completed" | "failed" | "cancelled" | "expired" | "interrupted";

/** Totals is what a session has used. */
export interface Totals {
  turns: number;
  steps: number;
  tool_calls: number;
  usage: Usage;
}

/** Usage is what something cost. Token counts are the provider's own where it
 * gives them. */
export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
  reasoning_tokens?: number;
  usd?: number;
  estimated?: boolean; // some call of it gave no reply and counts as reserved
}

/** TurnInfo is a turn as lists show it, and the body of GET /v1/turns/{id}. */
export interface TurnInfo {
  id: TurnID;
  session_id: SessionID;
  status: TurnStatus;
  stopping?: boolean;
  origin: Origin;
  message: string;
  client?: string;
  created_at: string;
  updated_at: string;
  ended_at?: string;
  response?: Response;
  error?: ErrorInfo;
  reason?: string; // of a cancellation or interruption
  spent: Spent;
  attempts?: number;
  retry_of?: TurnID;
  key?: string;
  first_seq: number;
  last_seq: number;
  interactions?: InteractionID[]; // the open ones
}

/** Origin is what began a turn. */
export type Origin = "user" | "schedule" | "runtime" | "call";

/** Response is what a turn answered. */
export interface Response {
  message: string;
  reasoning_summary?: string;
  citations?: Citation[];
  follow_ups?: string[];
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
  depth?: number;
  ran_ms: number; // up to the last time it stopped running
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
  runtime: string; // "loop"
  entry: string; // the agent that gets the user's message
  agents: Record<string, AgentDef>;
  tools: ToolDecl[] | null; // every tool some agent has
  model: string; // for agents that name none
  fallbacks?: string[]; // models for when that one does not answer, in order
  budgets: Budgets;
  policy: Policy;
  memory: MemoryOptions;
  busy: BusyMode;
  max_open_turns: number; // running and queued together; at least 1
  resume: ResumeMode;
  ttl?: TTL;
  wires?: string[];
  examples?: string[]; // questions a page may offer
  follow_ups?: string[]; // those that refer to an answer
}

/** AgentDef is one named agent of an app. */
export interface AgentDef {
  name: string;
  description?: string; // what another agent's model reads before it hands off
  prompt: string;
  model?: string; // unless the turn or the session names one; empty: the app's
  tools?: string[];
  handoffs?: string[];
  history?: HistoryMode; // empty: all
  max_output?: number;
  temperature?: number;
  effort?: string;
  server_tools?: string[];
  fallbacks?: string[];
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
  subject?: string;
  actuation?: boolean; // acts on the physical world, see Policy.AllowActuation
  asks?: boolean; // only asks a human; not offered where there is none
  edits?: boolean; // changes files of the session's workspace and nothing else, see ModeAcceptEdits
  workspace_own?: boolean;
  key_ttl?: Duration; // for idempotent: how long the service keeps keys
  timeout?: Duration; // of one call; 0: the engine's default
  output_limit?: number; // bytes of output kept in the log; 0: the toolbox's default
  cost?: string; // free text for people
  safety?: string;
}

/** Budgets bound a turn. A zero field bounds nothing. */
export interface Budgets {
  max_steps?: number;
  max_tool_calls?: number;
  max_duration_ms?: number; // only while the turn runs
  max_tokens_per_turn?: number; // soft: bounds each call's prompt
  max_total_tokens?: number; // hard: the sum over the turn
  max_usd?: number;
  max_depth?: number; // handoffs and sub-agents of one turn
}

/** MemoryOptions is what a session remembers between turns. Zero values mean all
 * that fits the model. */
export interface MemoryOptions {
  last_k?: number; // whole messages kept, up to 10 times as many for models with more than 200,000 tokens; 0: as many as fit
  summary_tokens?: number; // of the rolling summary of older turns; 0: there is none
  retrieve?: boolean; // look up snippets for each question, where a tool set can
  history_tokens?: number; // of the prompt, given to history; 0: as the model allows
}

/** ResumeMode is what happens to turns that a crash interrupted. */
export type ResumeMode = "manual" | "auto";

/** TTL is how long what belongs to an app is kept. A zero field means for ever.
 * Nothing is taken from a session that waits for a human. */
export interface TTL {
  session_idle?: Duration; // an active session expires after this long without an event
  turn_steps?: Duration; // the steps of a turn are condensed this long after its end; the messages stay
  ended?: Duration; // an ended or expired session is deleted after this long
  no_archive?: boolean; // what is taken is not archived first, but deleted
}

/** Transcript is the fold that people look at: every turn with its steps and its
 * answer. It is a view, paged from the log, and never needed to drive. The page
 * folds the same events in TypeScript; testdata/logs holds logs and what both
 * must make of them. */
export interface Transcript {
  session: SessionID;
  app: string;
  title: string;
  status: SessionStatus;
  seq: number;
  turns: TurnView[] | null; // in the order in which they were asked, queued ones too; null before the first
}

/** TurnView is one turn as people see it. */
export interface TurnView {
  id: TurnID;
  status: TurnStatus;
  stopping?: boolean;
  origin: Origin;
  message: string;
  by?: string;
  client?: string;
  retry_of?: TurnID;
  asked_at: string;
  ended_at?: string;
  entry?: string; // the agent that answers the user
  steps: StepView[] | null;
  texts: TextView[] | null; // what models said, one a call
  answer?: string; // once the turn has ended
  citations?: Citation[];
  follow_ups?: string[];
  error?: ErrorInfo;
  reason?: string;
  usage?: Usage;
  models: string[] | null; // that replied, each once
  warning?: string; // why a reply is doubtful, in words for people; the last one
  interactions?: Interaction[];
}

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

/** TextView is what one model call said. While Open, deltas and partials of the
 * call may show its text; they are not part of this fold. */
export interface TextView {
  call: CallID;
  agent: string;
  text: string;
  open?: boolean;
  cut?: boolean;
}

/** Interaction is a request to a human that pauses a turn until it is answered,
 * declined or expired. It needs nothing in memory. */
export interface Interaction {
  id: InteractionID;
  session: SessionID;
  turn: TurnID;
  agent?: AgentPath;
  kind: InteractionKind;
  call?: CallID; // the tool call it is about
  key?: string; // which of the call's own questions this is; empty for what others ask about it
  tool?: string;
  input?: unknown;
  title: string;
  text?: string;
  choices?: string[];
  questions?: Question[];
  reaches?: string[]; // of a permission: what the call acts on, where its tool can tell
  opened_at: string;
  expires_at?: string;
}

/** InteractionKind is what is asked of a human. */
export type InteractionKind = "question" | "permission" | "confirmation" | "credential" | "unknown";

/** Question is one structured question. */
export interface Question {
  question: string;
  header: string;
  options: Option[] | null;
  multi_select?: boolean;
}

/** Option is one answer offered. */
export interface Option {
  label: string;
  description?: string;
}

/** MemoryUpdated changes what it names. With Through, the exchanges up to and
 * including that number are now in the summary and leave the prompt. */
export interface MemoryUpdated {
  summary?: string;
  facts?: Fact[]; // replaces all
  pins?: Pin[]; // replaces all
  through?: number;
  dropped?: number; // exchanges that left
  by?: string; // a user, or "memory"
}

/** Fact is a lasting insight with where it comes from. */
export interface Fact {
  text: string;
  source?: string;
  seq?: number; // of the event up to which it was drawn
  time?: string;
}

/** Pin is a text that every prompt holds. */
export interface Pin {
  label: string;
  text: string;
}

/** ContextRetrieved adds snippets to the prompts of its turn. */
export interface ContextRetrieved {
  snippets: Snippet[] | null;
}

/** Snippet is something that was looked up for a turn. */
export interface Snippet {
  source: string;
  ref: string;
  text: string;
  pinned?: boolean; // it is there because the turn before was about it
}

/** SessionCreated is event 1 of every log. */
export interface SessionCreated {
  app: string;
  user: string;
  org?: string;
  title?: string;
  model?: string;
  temperature?: number;
  max_output?: number; // tokens of one reply; narrows the agents'
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
  in_force?: InForce; // by the app's settings then
}

/** InForce is what an app settles for a session where it has no wish of its own: the
 * ceiling of its policy, and the model of its first agent. */
export interface InForce {
  model?: string;
  policy: Policy; // without rules
}

/** SessionUpdated changes what it names. */
export interface SessionUpdated {
  title?: string;
  model?: string;
  temperature?: number;
  max_output?: number;
  mode?: PermissionMode;
  busy?: BusyMode;
  preferences?: Record<string, unknown>; // replaces all
  rules?: Rule[]; // replaces the rules granted for the session
  by?: string;
}

/** SessionEnded closes a session for good. */
export interface SessionEnded {
  status: SessionStatus; // ended or expired
  reason?: string;
  by?: string;
}

/** SessionForked stands right after the events that were copied from Parent up
 * to and including At. It drops what a fork does not take: rules, open
 * interactions, the queue and provider state. */
export interface SessionForked {
  parent: SessionID;
  at: number;
  title?: string;
  by?: string;
}

/** TurnStarted opens a turn. */
export interface TurnStarted extends TurnRequest {
  app: Digest; // of the resolved App; its body is a blob
  zone?: Zone;
  in_force?: InForce;
}

/** Digest is the lower-case hex SHA-256 of some bytes. */
export type Digest = string;

/** Zone is a time zone at one moment: its offset is kept, so that what is written by
 * it stays the same wherever and whenever it is read. */
export interface Zone {
  name: string; // such as Europe/Berlin
  offset: number; // seconds east of UTC
}

/** TurnRequest is what a turn was asked; queued and started turns carry it. */
export interface TurnRequest {
  origin: Origin;
  message: Message;
  call?: ToolCall; // for OriginCall
  model?: string;
  hints?: Record<string, unknown>;
  budgets: Budgets; // as narrowed for this turn
  key?: string;
  client?: string; // which door
  by?: string;
  retry_of?: TurnID;
  no_tools?: boolean;
}

/** Message is one thing said. */
export interface Message {
  role: Role;
  parts: Part[] | null;
}

/** Role is who spoke. */
export type Role = "user" | "assistant" | "tool";

/** Part is a piece of a message. */
export interface Part {
  type: PartType;
  text?: string;
  call?: CallID;
  provider_id?: string; // the provider's own id of the call; may repeat or be missing
  name?: string;
  input?: unknown;
  redacted?: boolean; // Input is without the secrets that it came with
  is_error?: boolean;
  cut?: boolean; // the text ends where a call was cut off
  artifact?: ArtifactID;
  media_type?: string;
  signature?: unknown;
  provider?: string;
}

/** PartType says which fields of a Part are set. */
export type PartType = "text" | "thinking" | "tool_call" | "tool_result" | "handoff" | "image" | "file" | "provider";

export type ArtifactID = string;

/** ToolCall is a model's or a client's wish to run a tool. */
export interface ToolCall {
  call: CallID;
  agent?: AgentPath;
  name: string;
  input: unknown;
  redacted?: boolean;
}

/** TurnQueued puts a turn behind the open one. It lets a held queue go on, unless
 * it is Late. */
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

/** TurnStopRequested says that someone asked to stop a turn that does not end at
 * once: started writes still have to come to an end, or another turn is to run
 * next. After a crash it is why the turn is cancelled and not resumed. */
export interface TurnStopRequested {
  reason?: string;
  by?: string;
}

/** TurnInterrupted is appended by recovery only. */
export interface TurnInterrupted {
  reason: string;
  last?: string;
}

/** TurnResumed counts an attempt to go on with an interrupted turn. */
export interface TurnResumed {
  attempt: number;
  auto?: boolean;
  by?: string;
}

/** TurnCompleted ends a turn well. */
export interface TurnCompleted {
  response: Response;
  usage: Usage;
}

/** TurnFailed ends a turn with an error; Response is what was answered so far. */
export interface TurnFailed {
  error: ErrorInfo;
  response?: Response;
  usage: Usage;
}

/** TurnCancelled ends a turn by someone's wish, or before it began. */
export interface TurnCancelled {
  reason?: string;
  by?: string; // a user, or "superseded", "session_ended", "forked"
  response?: Response;
  usage: Usage;
}

/** TurnExpired ends a turn whose time to be answered or resumed is over. */
export interface TurnExpired {
  reason?: string;
  usage: Usage;
}

/** AgentStarted opens an instance of an agent: the entry agent of a turn, or a
 * sub-agent of Parent. The event's Agent is its path. */
export interface AgentStarted {
  name: string;
  parent?: AgentPath;
  call?: CallID; // of the parent's reply, for a sub-agent
  input?: string; // a sub-agent's task
}

/** AgentHandoff gives the turn from one agent to another, which is thereby
 * started. The event's Agent is the one that gives. */
export interface AgentHandoff {
  from: AgentPath;
  to: AgentPath;
  name: string; // the receiving agent's definition
  why?: string;
  call?: CallID;
}

/** AgentEnded closes a sub-agent. */
export interface AgentEnded {
  result?: string;
  outcome: Outcome;
}

/** ModelStarted is committed before the request leaves. Reserved is what the
 * call may cost at most; a call without a reply counts as that. */
export interface ModelStarted {
  call: CallID;
  model: string;
  context: Digest; // of the request's JSON
  reserved: Usage;
  window?: number; // tokens that the model took in all, as was known then
}

/** ModelReplied is the authority over what a call said. */
export interface ModelReplied {
  call: CallID;
  model: string; // the name the provider answered with
  parts: Part[] | null;
  usage: Usage;
  stop_reason?: string;
  ttft_ms?: number; // request to first fragment
  took_ms?: number;
  state?: unknown;
  citations?: Citation[]; // what the provider's own tools found
  warning?: string; // why the reply is doubtful, in words for people
}

/** ModelFailed ends a call without a reply. Partial is the text up to the cut. */
export interface ModelFailed {
  call: CallID;
  error: ErrorInfo;
  retry?: boolean; // the loop will call again
  partial?: string;
  usage: Usage; // what it counts as
  fallback?: string;
}

/** ToolRequested is a model's wish, in the append of its model.replied. Call is
 * the idempotency key for good. */
export interface ToolRequested {
  call: CallID;
  name: string;
  input: unknown;
  redo?: CallID; // a human asked to do this unknown call again
  redacted?: boolean;
}

/** ToolStarted is committed before a call with effects leaves. */
export interface ToolStarted {
  call: CallID;
  name: string;
  input: unknown; // what runs: an approval may have edited it
  effect: Effect;
  grant?: InteractionID;
  deadline: string;
  attempt: number; // from 1; more only for reads and idempotent calls
  reaches?: string[]; // what it acts on, where its tool can tell
  redacted?: boolean; // see ToolRequested; what ran had the secrets
}

/** ToolEnded is the outcome of a call. */
export interface ToolEnded extends ToolResult {
  name: string;
  effect?: Effect;
  took_ms?: number;
}

/** ToolResult is what came of it. Output is what the model sees: text, or JSON
 * when the tool declares an output schema. */
export interface ToolResult {
  call: CallID;
  outcome: Outcome;
  output: string;
  data?: unknown; // structured output, checked against the schema
  artifact?: ArtifactRef; // the whole of it, where Output is only its beginning
  error?: ErrorInfo;
  about?: string[];
}

/** ArtifactRef points to a large result kept aside. */
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
  text?: string; // a message with a denial
  input?: unknown; // edited input of a call that is allowed
  answers?: Record<string, string>; // question text → label or own words
}

/** InteractionExpired closes an interaction that nobody answered in time, or
 * whose turn ended. */
export interface InteractionExpired {
  id: InteractionID;
  reason?: string;
}

/** HistoryCondensed says that retention took the data of the step events From to
 * To, which end with the end of a turn. Turns are what folds need of them, so a
 * fold still begins at event 1, whatever its version; Archive names where the
 * events are kept whole. With To 0 nothing was taken. */
export interface HistoryCondensed {
  from: number;
  to: number;
  archive?: string;
  turns?: CondensedTurn[]; // that ended within, in their order
  next?: string; // when the oldest turn ended whose steps are still there
  base?: unknown;
  version?: number;
}

/** CondensedTurn is what folds keep of a turn whose steps retention took: all that
 * the end of the turn takes over into a Session, but for what providers keep. */
export interface CondensedTurn {
  turn: TurnID;
  spent: Spent;
  effects?: Effected[]; // its calls with effects
  answered?: Record<string, string>; // by agent name: the model that replied last
  results?: string[]; // see Exchange; versions before 10 of the fold kept none
  about?: string[]; // see Session; likewise
  through?: number; // of its last context.compacted
}

/** Effected is a call with effects and how it came out. */
export interface Effected {
  call: CallID;
  tool: string;
  outcome: Outcome;
  resolution?: string; // of an unknown outcome, by a human
}

/** ContextCompacted takes the exchanges up to and including Through out of the
 * prompt; the log keeps them. */
export interface ContextCompacted {
  through: number;
  dropped: number;
  tokens_before: number;
  tokens_after: number;
}

/** ContextObserved is something that happened outside to what the turn deals with,
 * such as a state that changed. It is shown to people and is in no prompt. */
export interface ContextObserved {
  source: string; // who saw it, such as homeassistant
  ref: string; // what it happened to, such as an entity
  text: string;
  at: string;
}

/** ContextTransferred says that another model goes on with the session than the
 * one that answered so far. Text is what its prompts of this turn hold about that. */
export interface ContextTransferred {
  from: string;
  to: string;
  text: string;
}

/** ArtifactStored says that a large result was kept aside. */
export interface ArtifactStored extends ArtifactRef {
  call?: CallID;
}

/** BudgetReached precedes the turn.failed that it causes. */
export interface BudgetReached {
  name: string; // steps, tool_calls, duration, tokens, usd, depth
  limit: number;
  used: number;
  needs?: number; // what the next step would take at least, where that is known
}
