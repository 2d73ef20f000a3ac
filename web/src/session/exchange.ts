// A turn as a chat shows it: a question, the thought process, and an answer.

import type { Attachment, Citation, ErrorInfo, ResourceRef, StepView, TurnStatus, TurnView, Usage } from "../api/types.gen.ts";
import { errorInPageWords, inPageWords } from "../api/words.ts";
import { outputText } from "../ui/text.ts";
import type { InFlight } from "./live.ts";
import type { Asked, Records } from "./records.ts";

/** The standing of an exchange. Only this page knows "sending" and "unsent"; "resuming" is interrupted and continues by itself. */
export type Standing = TurnStatus | "resuming" | "sending" | "unsent";

export interface Exchange {
  id: string;
  /** The turn in which the question was asked first; another only after a retry. */
  first?: string;
  /** The number of the event that began it. */
  seq?: number;
  question: string;
  /** The resources that the question has attached. */
  resources?: readonly ResourceRef[];
  /** The files that it has. */
  attachments?: readonly Attachment[];
  /** A program called a tool, and no model was asked; the question has the tool's name and input. */
  direct?: boolean;
  standing: Standing;
  stopping: boolean;
  steps: readonly StepView[];
  /** There are earlier steps, which are not read. */
  cutSteps?: boolean;
  /** By tool call that has not ended: what the tool reported last. */
  progress?: ReadonlyMap<string, string>;
  answer: string;
  /** The answer ends where its model call was cut off. */
  cut: boolean;
  error?: ErrorInfo;
  /** When to try again, if the error says so. */
  retryAt?: number;
  reason?: string;
  /** Why the answer may be wrong. */
  warning?: string;
  usage?: Usage;
  /** The cost of earlier attempts, in US dollars. */
  spentBefore?: number;
  models: readonly string[];
  askedAt?: string;
  endedAt?: string;
  /** Starts at 1; higher after a retry. */
  attempt: number;
  /** The interactions of the turn, open and closed. */
  asked: readonly Asked[];
  citations?: readonly Citation[];
  followUps?: readonly string[];
}

export const isOpen = (s: Standing): boolean =>
  s === "sending" || s === "pending" || s === "running" || s === "streaming" || s === "waiting" || s === "resuming";

/** Whether a path belongs to model calls that a server asks for during an agent's tool call. */
export const isSampling = (path: string | undefined): boolean => /\/sampling\.[^/]*$/.test(path ?? "");

/** For such a path, the agent that made the tool call; otherwise the agent itself. */
export const callerOf = (path: string | undefined): string => (isSampling(path) ? (path ?? "").replace(/\/[^/]*$/, "") : (path ?? ""));

/** "research" of "lead/research#2". */
export const agentName = (path: string | undefined): string => (path ?? "").replace(/^.*\//, "").replace(/#\d+$/, "");

interface Shown {
  list: Exchange[];
  /** The turns that have not ended: their index in the list, and earlier attempts. */
  open: { at: number; turn: TurnView; before: Before }[];
}

/** Earlier attempts at the same message. */
interface Before {
  attempts: number;
  usd: number;
  /** The first of them. */
  turn?: string;
}

const first: Before = { attempts: 0, usd: 0 };

/** By transcript: while only text in flight changes, only the turns that have not ended are converted again. */
const shown = new WeakMap<readonly TurnView[], Shown>();

/** The exchanges of a transcript. If a turn was retried, only its last attempt is shown. */
export function exchangesOf(turns: readonly TurnView[] | null, live: ReadonlyMap<string, InFlight>, records?: Pick<Records, "asked" | "cut">): Exchange[] {
  if (!turns) return [];
  const known = shown.get(turns);
  if (known) {
    const list = [...known.list];
    for (const { at, turn, before } of known.open) list[at] = exchangeOf(turn, live, records, before);
    return list;
  }
  const attempts = new Map<string, Before>();
  const spent = new Map<string, number>();
  const retried = new Set<string>();
  for (const t of turns) {
    spent.set(t.id, t.usage?.usd ?? 0);
    if (!t.retry_of || t.rewound) continue;
    retried.add(t.retry_of);
    const last = attempts.get(t.retry_of) ?? first;
    attempts.set(t.id, { attempts: last.attempts + 1, usd: last.usd + (spent.get(t.retry_of) ?? 0), turn: last.turn ?? t.retry_of });
  }
  const now: Shown = { list: [], open: [] };
  for (const turn of turns) {
    if (retried.has(turn.id) || turn.rewound) continue; // the log keeps what was taken back
    const before = attempts.get(turn.id) ?? first;
    if (!turn.ended_at) now.open.push({ at: now.list.length, turn, before });
    now.list.push(exchangeOf(turn, live, records, before));
  }
  shown.set(turns, now);
  return [...now.list];
}

const none: readonly Asked[] = [];

const ended = new WeakMap<TurnView, Exchange>();

/** An ended turn always gives the same object, so that it renders once. */
function exchangeOf(t: TurnView, live: ReadonlyMap<string, InFlight>, records: Pick<Records, "asked" | "cut"> | undefined, before: Before): Exchange {
  const attempt = before.attempts + 1;
  const known = ended.get(t);
  if (known && known.attempt === attempt) return known;
  const { text, cut } = t.answer ? { text: t.answer, cut: t.status !== "completed" } : said(t, live);
  const x: Exchange = {
    id: t.id,
    ...(before.turn && { first: before.turn }),
    seq: t.seq,
    question: t.message,
    ...(t.resources && { resources: t.resources }),
    ...(t.attachments && { attachments: t.attachments }),
    ...(t.origin === "call" && { direct: true }),
    standing: t.resumes ? "resuming" : t.status,
    stopping: t.stopping ?? false,
    steps: t.steps ?? [],
    ...(records?.cut.has(t.id) && { cutSteps: true }),
    answer: text,
    cut,
    ...(t.error && { error: errorInPageWords(t.error) }),
    ...(t.error?.retry_after_ms && t.ended_at && { retryAt: Date.parse(t.ended_at) + t.error.retry_after_ms }),
    // The server says why a turn expired; why one was stopped may be a person's own words.
    ...(t.reason && { reason: t.status === "expired" ? inPageWords(t.reason) : t.reason }),
    ...(t.warning && { warning: t.warning }),
    ...(t.usage && { usage: t.usage }),
    ...(before.usd > 0 && { spentBefore: before.usd }),
    models: t.models ?? [],
    askedAt: t.asked_at,
    ...(t.ended_at && { endedAt: t.ended_at }),
    attempt,
    asked: records?.asked.get(t.id) ?? none,
    ...(t.citations && { citations: t.citations }),
    ...(t.follow_ups && { followUps: t.follow_ups }),
  };
  if (t.ended_at) ended.set(t, x);
  else {
    const progress = progressOf(t, live);
    if (progress.size > 0) x.progress = progress;
  }
  return x;
}

function progressOf(t: TurnView, live: ReadonlyMap<string, InFlight>): ReadonlyMap<string, string> {
  const progress = new Map<string, string>();
  if (live.size === 0) return progress;
  for (const s of t.steps ?? []) {
    const have = s.type === "tool_call" && s.call ? live.get(s.call) : undefined;
    if (have && s.call) progress.set(s.call, have.text);
  }
  return progress;
}

/** The latest text of the answering agent. */
function said(t: TurnView, live: ReadonlyMap<string, InFlight>): { text: string; cut: boolean } {
  const texts = t.texts ?? [];
  for (let i = texts.length - 1; i >= 0; i--) {
    const of = texts[i];
    if (!of || of.agent !== t.entry) continue;
    const text = of.open ? (live.get(of.call)?.text ?? "") : of.text;
    if (text !== "") return { text, cut: of.cut ?? false };
  }
  return { text: "", cut: false };
}

/**
 * The steps in the order in which they were requested. Parallel calls start and end in any
 * order, and read best with each result below its call. The ids of calls grow in the order in
 * which the model made them.
 */
export function inOrder(steps: readonly StepView[]): StepView[] {
  const ordered: StepView[] = [];
  let run: StepView[] = [];
  const flush = () => {
    run.sort((a, b) => compare(a.call ?? "", b.call ?? "") || Number(a.type === "tool_result") - Number(b.type === "tool_result"));
    ordered.push(...run);
    run = [];
  };
  for (const s of steps) {
    const sideBySide = (s.type === "tool_call" || s.type === "tool_result") && s.call !== undefined;
    if (!sideBySide || s.agent !== run[0]?.agent) flush();
    if (sideBySide) run.push(s);
    else ordered.push(s);
  }
  flush();
  return ordered;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Consecutive steps of one agent. A handoff belongs to the agent that hands over. */
export interface StepGroup {
  agent: string;
  steps: StepView[];
}

export function groupSteps(steps: readonly StepView[]): StepGroup[] {
  const groups: StepGroup[] = [];
  for (const s of inOrder(steps)) {
    const agent = agentName(s.type === "handoff" ? s.from : s.agent);
    const last = groups.at(-1);
    if (last && (last.agent === agent || agent === "")) last.steps.push(s);
    else groups.push({ agent, steps: [s] });
  }
  return groups;
}

/** A call's input as text: a single query is shown alone, other inputs in full. */
export function queryOf(input: unknown): string {
  if (typeof input === "object" && input !== null && !Array.isArray(input)) {
    const values = Object.values(input);
    if (values.length === 1 && typeof values[0] === "string") return values[0];
    if (values.length === 0) return "";
  }
  return input === undefined || input === null ? "" : JSON.stringify(input);
}

/** A step as a line of text. */
export function lineOf(s: StepView): string {
  switch (s.type) {
    case "agent_start":
      return `▶ ${agentName(s.agent)} agent activated`;
    case "tool_call": {
      const task = s.tool === "Task" ? taskIn(s.input) : ""; // the rest of the input is for the sub-agent
      const query = task || queryOf(s.input);
      const quoted = task || isPlain(s.input) ? `"${query}"` : query;
      return `→ calling ${s.tool}(${quoted})`;
    }
    case "tool_result":
      return `← ${s.outcome && s.outcome !== "ok" ? s.outcome : "result"}: ${outputText(s.result ?? "")}`;
    case "handoff":
      return `⇒ handing off to ${agentName(s.to)}`;
    case "note":
      return `· ${s.text ?? ""}`;
  }
}

/** The short description of a Task call, which is meant for people. */
function taskIn(input: unknown): string {
  const { description } = (typeof input === "object" && input !== null ? input : {}) as { description?: unknown };
  return typeof description === "string" ? description : "";
}

function isPlain(input: unknown): boolean {
  return typeof input === "object" && input !== null && Object.values(input).length === 1 && typeof Object.values(input)[0] === "string";
}
