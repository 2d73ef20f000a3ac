// The log of a turn's steps, each with its kind, for readers who want to know how an answer came
// about.

import type { ArtifactRef, Event, FileSaved, Interaction, InteractionAnswered, Outcome, Sampling, Snippet, ToolStarted } from "../api/types.gen.ts";
import { clock, clockExact, count, outputText } from "../ui/text.ts";
import { agentName, callerOf, isSampling } from "./exchange.ts";
import { awaitedBy } from "./inbox.ts";
import { closingOf } from "./outcome.ts";
import { noteOf, samplingOf } from "./reduce.ts";
import { labelOf } from "./team.ts";
import { nameOf } from "./writes.ts";

export type StepKind = "agent" | "plan" | "tool_call" | "tool_result" | "retrieval" | "observed_event" | "summary" | "handoff" | "ask" | "answer" | "offer" | "change" | "note" | "error";

export interface Step {
  seq: number;
  at: string;
  kind: StepKind;
  agent: string;
  /** A one-line summary. */
  text: string;
  /** The tool, for a call and its result. */
  tool?: string;
  call?: string;
  input?: unknown;
  outcome?: Outcome;
  tookMs?: number;
  /** Further text, which may be long. */
  detail?: string;
  snippets?: readonly Snippet[];
  /** The files that were changed. */
  files?: readonly FileSaved[];
}

/** Start of a model's end notes, which are not shown to people. */
const endNotes = "```parley\n";

const textIn = (e: Extract<Event, { type: "model.replied" }>): string =>
  (e.data.parts ?? [])
    .filter((p) => p.type === "text")
    .map((p) => p.text ?? "")
    .join("")
    .split(endNotes)[0]
    ?.trim() ?? "";

/** The steps of a turn, from its events. */
export function stepsOf(events: readonly Event[]): Step[] {
  const steps: Step[] = [];
  const models = new Map<string, string>();
  const asked = new Map<string, Interaction>();
  const writes = new Map<string, ToolStarted>();
  const ended = new Set(events.flatMap((e) => (e.type === "tool.ended" && e.data ? [e.data.call] : [])));
  for (const e of events) {
    if ((e.v ?? 0) > 0 || e.data === null || e.data === undefined) continue;
    if (e.type === "model.started") models.set(e.data.call, e.data.model);
    if (e.type === "interaction.opened") asked.set(e.data.id, e.data);
    if (e.type === "tool.started" && e.data.effect === "write") writes.set(e.data.call, e.data);
    if (e.type === "tool.ended") writes.delete(e.data.call);
    const step = stepOf(e, models, asked);
    if (step && e.type === "turn.resumed") step.text += awaited([...writes.values()].filter((w) => !ended.has(w.call)), e.time);
    if (step) steps.push({ seq: e.seq, at: e.time, agent: labelOf(callerOf(e.agent)), ...step });
  }
  return steps;
}

/**
 * Why a turn that was resumed at a time may do nothing for a while: a write that was started before
 * may count as running until its deadline, and a little longer. Of some tools it is known at once.
 */
function awaited(writes: readonly ToolStarted[], at: string): string {
  const late = writes.filter((w) => Date.parse(w.deadline) > Date.parse(at));
  return late.map((w) => `; what became of ${nameOf(w)} is being found out, which may take until shortly after ${clockExact(w.deadline)}`).join("");
}

/** All that a server asks of a model. */
const asksOf = (s: Sampling): string =>
  [...(s.system ? [s.system] : []), ...(s.messages ?? []).map((m) => `${m.role}: ${(m.parts ?? []).map((p) => p.text ?? "").join("")}`)].join("\n\n");

type Made = Pick<Step, "kind" | "text"> & Partial<Step>;

/** The step of an event; models and asked are those of the calls and interactions before it. */
function stepOf(e: Event, models: ReadonlyMap<string, string>, asked: ReadonlyMap<string, Interaction>): Made | undefined {
  switch (e.type) {
    case "agent.started":
      return e.data.name === "memory" ? undefined : { kind: "agent", text: e.data.input ?? "begins" };
    case "agent.handoff":
      return { kind: "handoff", text: `to ${agentName(e.data.to)}${e.data.why ? `: ${e.data.why}` : ""}` };
    case "model.started": // nothing to show: the agent's text and calls are steps of their own
      return e.data.for && { kind: "note", text: `${samplingOf(e.data.for, e.data.model)}, which asked:`, detail: asksOf(e.data.for) };
    case "model.replied": {
      if (isSampling(e.agent)) return { kind: "note", text: "replied:", detail: textIn(e) };
      // Text before calls is what the model intends; text without is the answer.
      const acts = (e.data.parts ?? []).some((p) => p.type === "tool_call" || p.type === "handoff");
      const text = textIn(e);
      return acts && text !== "" && agentName(e.agent) !== "memory" ? { kind: "plan", text } : undefined;
    }
    case "model.failed":
      if (e.data.fallback) {
        return { kind: "error", text: `${models.get(e.data.call) ?? "the model"} did not answer (${e.data.error.message}); ${e.data.fallback} goes on` };
      }
      return { kind: "error", text: `the model call failed${e.data.retry ? " and is tried again" : ""}: ${e.data.error.message}` };
    case "tool.started":
      // The repeated call continues with the answer, and does not ask again.
      if (e.data.name === ask && e.data.attempt > 1) return undefined;
      return {
        kind: "tool_call",
        text: e.data.attempt > 1 ? `attempt ${e.data.attempt}` : "",
        tool: e.data.name,
        call: e.data.call,
        input: asksIn(e.data.name, e.data.input),
      };
    case "tool.ended": {
      const text = e.data.outcome === "ok" ? "" : (e.data.error?.message ?? refusalIn(e.data.outcome, e.data.output));
      return {
        kind: "tool_result",
        text,
        tool: e.data.name,
        call: e.data.call,
        outcome: e.data.outcome,
        ...(e.data.took_ms !== undefined && { tookMs: e.data.took_ms }),
        ...(e.data.output !== text && !text.endsWith(`: ${e.data.output.trim()}`) && { detail: (e.data.outcome === "ok" && saidIn(e.data.name, e.data.output)) || outputText(e.data.output) }),
      };
    }
    case "context.retrieved": {
      const attached = (e.data.entities ?? []).map((x) => ({ source: "attached", ref: x.path, text: x.why ?? `as of version ${(x.version ?? "").slice(0, 8)}` }));
      const snippets = [...attached, ...(e.data.snippets ?? [])];
      return snippets.length === 0 ? undefined : { kind: "retrieval", text: `${snippets.length} found:`, snippets };
    }
    case "memory.updated":
      return e.data.dropped ? { kind: "summary", text: "earlier turns were summed up", ...(e.data.summary && { detail: e.data.summary }) } : undefined;
    case "context.compacted":
      return { kind: "summary", text: `the prompt went from ${count(e.data.tokens_before)} to ${count(e.data.tokens_after)} tokens` };
    case "context.observed":
      // A client's late report names a call by its id, which means nothing to people.
      return { kind: "observed_event", text: `${e.data.source === "client" ? "" : `${e.data.ref} `}${e.data.text} at ${clock(e.data.at)}` };
    case "context.transferred":
      return { kind: "summary", text: `${e.data.to} goes on in place of ${e.data.from}:`, detail: e.data.text };
    case "interaction.opened":
      return { kind: askKind(e.data), text: e.data.title };
    case "interaction.answered":
      return { kind: answerKind(asked.get(e.data.id)), text: closedIn(e.data, asked.get(e.data.id)) };
    case "interaction.expired":
      return { kind: answerKind(asked.get(e.data.id)), text: `closed: ${e.data.reason || "nobody answered in time"}` };
    case "turn.steered":
      return { kind: "note", text: `message from the user: ${(e.data.message.parts ?? []).map((p) => p.text ?? "").join("")}` };
    case "turn.interrupted":
      return { kind: "note", text: `interrupted: ${e.data.reason}` };
    case "turn.resumed":
      return { kind: "note", text: e.data.attempt > 1 ? `resumed, attempt ${e.data.attempt}` : "resumed" };
    case "budget.reached":
      return { kind: "error", text: `budget reached: ${e.data.name} (${count(e.data.used)} of ${count(e.data.limit)})` };
    case "hook.ran":
    case "runtime.noted": {
      const text = noteOf(e);
      return text ? { kind: e.type === "hook.ran" && e.data.error ? "error" : "note", text } : undefined;
    }
    case "files.saved": {
      const files = e.data.files ?? [];
      return files.length > 0 ? { kind: "change", text: "", files } : undefined;
    }
    case "turn.failed":
      return { kind: "error", text: e.data.error.message };
    default:
      return observed(e);
  }
}

/** A call that is offered to clients does not ask a person. */
const askKind = (i: Interaction | undefined): StepKind => (i && awaitedBy(i) === "client" ? "offer" : "ask");
const answerKind = (i: Interaction | undefined): StepKind => (askKind(i) === "offer" ? "offer" : "answer");

function closedIn(closed: InteractionAnswered, interaction: Interaction | undefined): string {
  const said = Object.values(closed.answer.answers ?? {}).join("; ") || closed.answer.text || "";
  return closingOf(closed, interaction) + (said && `: ${said}`);
}

/** The tool with which an agent asks the user. What it asks and is told is read in words, not in JSON. */
const ask = "AskUserQuestion";

function asksIn(tool: string, input: unknown): unknown {
  const { questions } = (tool === ask ? (input ?? {}) : {}) as { questions?: { question?: string }[] };
  return Array.isArray(questions) ? { questions: questions.map((q) => q?.question ?? "").join(" ") } : input;
}

function saidIn(tool: string, output: string): string {
  if (tool !== ask) return "";
  try {
    const { answers } = JSON.parse(output) as { answers?: Record<string, string> };
    return Object.values(answers ?? {}).join("; ");
  } catch {
    return ""; // it was cut off
  }
}

/** Why a call that was not made, or was not made well, ended so: its first line says it, where no error does. */
function refusalIn(outcome: Outcome, output: string): string {
  const why = outputText(output).trim().split("\n", 1)[0] ?? "";
  return why === "" || why === outcome ? outcome : `${outcome}: ${why}`;
}

/** The step of an observation whose kind of event is newer than this page. */
function observed(e: { type: string; data: unknown }): Made | undefined {
  if (!e.type.endsWith(".observed")) return undefined;
  return { kind: "observed_event", text: e.type.replace(/\.observed$/, ""), detail: JSON.stringify(e.data) };
}

/** An image that a model was shown in place of a larger one, which is an artifact, too. */
const small = /-shown\.(png|jpeg|webp)$/;

/** The artifacts of a turn, each once. */
export function artifactsOf(events: readonly Event[]): ArtifactRef[] {
  const found = new Map<string, ArtifactRef>();
  for (const e of events) {
    if (!e.data) continue;
    const ref = e.type === "artifact.stored" ? e.data : e.type === "tool.ended" ? e.data.artifact : undefined;
    if (ref?.id && !found.has(ref.id)) found.set(ref.id, ref);
  }
  const all = [...found.values()];
  return all.filter((a) => !small.test(a.name) || !all.some((b) => b !== a && b.name.replace(/\.[^.]*$/, "") === a.name.replace(small, "")));
}
