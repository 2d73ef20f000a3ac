// The transcript as a fold over the log: the same as Transcript.Apply in transcript.go, field by
// field and in the same order. The logs in testdata/logs verify that. It does not modify its
// input. Turns that an event does not concern stay the same objects, so they need not render
// again.

import type {
  Attachment,
  ContextObserved,
  Event,
  Interaction,
  Part,
  ResourceRef,
  RestoredView,
  Rewind,
  RewindView,
  Sampling,
  SessionRewound,
  StepView,
  Transcript,
  TurnRequest,
  TurnStatus,
  TurnView,
  Usage,
} from "../api/types.gen.ts";
import { agentName, callerOf, isSampling } from "./exchange.ts";

/** The state before event 1. */
export const empty: Transcript = { session: "", app: "", title: "", status: "" as Transcript["status"], seq: 0, turns: null };

export function reduce(state: Transcript, event: Event): Transcript {
  return reduceAll(state, [event]);
}

/** Folds many events, copying only once what they change. */
export function reduceAll(state: Transcript, events: readonly Event[]): Transcript {
  const draft = new Draft(state);
  for (const e of events) draft.apply(e);
  return draft.state;
}

class Draft {
  state: Transcript;
  readonly #given: Transcript;
  /** Turns that were already copied here. */
  readonly #mine = new Set<TurnView>();

  constructor(given: Transcript) {
    this.#given = given;
    this.state = given;
  }

  apply(e: Event): void {
    if (e.seq <= this.state.seq) return;
    if (this.state === this.#given) this.state = { ...this.#given };
    const v = this.state;
    v.seq = e.seq;
    if ((e.v ?? 0) > 0 || e.data === null || e.data === undefined) return; // of a newer version, or condensed
    switch (e.type) {
      case "session.created":
        v.session = e.session;
        v.app = e.data.app;
        v.title = e.data.title ?? "";
        v.status = "active";
        return;
      case "history.restored": {
        const x: RestoredView = { seq: e.seq };
        if (e.data.user) x.message = e.data.user;
        if (e.data.reply) x.answer = e.data.reply;
        v.restored = [...(v.restored ?? []), x];
        return;
      }
      case "session.updated":
        if (e.data.title !== undefined && e.data.title !== null) v.title = e.data.title;
        return;
      case "session.ended":
        v.status = e.data.status;
        return;
      case "session.forked":
        v.session = e.session;
        v.title = e.data.title ?? "";
        v.status = "active";
        delete v.rewinding;
        return;
      case "session.rewinding":
        v.rewinding = true;
        return;
      case "session.rewound":
        this.#rewound(e, e.data);
        return;
      case "turn.queued":
        this.#ask(e, e.data, "pending");
        return;
      case "turn.started": {
        const t = this.#turn(e.turn);
        if (t) {
          t.status = "running";
          t.seq = e.seq;
        } else this.#ask(e, e.data, "running");
        return;
      }
    }
    const t = this.#turn(e.turn);
    if (t) applyTurn(t, e);
  }

  #ask(e: Event, r: TurnRequest, status: TurnStatus): void {
    const t: TurnView = {
      id: e.turn ?? "",
      status,
      seq: e.seq,
      origin: r.origin,
      message: textOf(r.message.parts),
      asked_at: e.time,
      steps: [],
      texts: [],
      models: [],
    };
    const resources = resourcesOf(r.message.parts);
    if (resources.length > 0) t.resources = resources;
    const attachments = attachmentsOf(r.message.parts);
    if (attachments.length > 0) t.attachments = attachments;
    set(t, "by", r.by);
    set(t, "client", r.client);
    set(t, "retry_of", r.retry_of);
    this.#mine.add(t);
    this.#turns().push(t);
  }

  /** Marks what a rewind takes back, and what it brings back. */
  #rewound(e: Event, data: SessionRewound): void {
    const v = this.state;
    delete v.rewinding;
    const { files, files_more, effects, effects_more, memory: _, ...rewind } = data;
    const view: RewindView = { ...rewind, seq: e.seq, at: e.time };
    if (files && files.length > 0) view.files = files;
    if (files_more) view.files_more = files_more;
    if (effects && effects.length > 0) view.effects = effects;
    if (effects_more) view.effects_more = effects_more;
    const now = marked(v.turns ?? [], [...(v.rewinds ?? []), view]);
    v.rewinds = now.rewinds;
    now.turns.forEach((t, i) => {
      if (t !== v.turns?.[i]) this.#turns()[i] = t;
    });
  }

  /** The turns, as an array that may be modified. */
  #turns(): TurnView[] {
    if (this.state.turns === null || this.state.turns === this.#given.turns) this.state.turns = [...(this.state.turns ?? [])];
    return this.state.turns;
  }

  /** The turn with this id, as an object that may be modified. */
  #turn(id: string | undefined): TurnView | undefined {
    const all = this.state.turns;
    if (!all || !id) return undefined;
    for (let i = all.length - 1; i >= 0; i--) {
      const t = all[i] as TurnView;
      if (t.id !== id) continue;
      if (this.#mine.has(t)) return t;
      const copy: TurnView = { ...t, steps: [...(t.steps ?? [])], texts: [...(t.texts ?? [])], models: [...(t.models ?? [])] };
      this.#mine.add(copy);
      this.#turns()[i] = copy;
      return copy;
    }
    return undefined;
  }
}

function applyTurn(t: TurnView, e: Event): void {
  const agent = e.agent ?? "";
  switch (e.type) {
    case "agent.started":
      if (e.data.name === "memory") break;
      if (!t.entry) set(t, "entry", agent);
      step(t, e, { type: "agent_start", agent });
      break;
    case "agent.handoff":
      step(t, e, { type: "handoff", from: e.data.from, to: e.data.to });
      step(t, e, { type: "agent_start", agent: e.data.to });
      break;
    case "model.started":
      if (agentName(agent) === "memory") break;
      if (e.data.for) {
        step(t, e, { type: "note", agent: callerOf(agent), text: samplingOf(e.data.for, e.data.model) });
        break;
      }
      t.texts?.push({ call: e.data.call, agent, text: "", open: true });
      break;
    case "model.replied":
      closeText(t, e.data.call, textOf(e.data.parts), false);
      if (!t.models?.includes(e.data.model)) t.models?.push(e.data.model);
      if (e.data.warning && !isSampling(agent)) t.warning = e.data.warning;
      break;
    case "model.failed": {
      const partial = e.data.partial ?? "";
      closeText(t, e.data.call, partial, partial !== "");
      if (isSampling(agent)) {
        step(t, e, { type: "note", agent: callerOf(agent), text: `the server got no reply: ${e.data.error.message}` });
        break;
      }
      if (e.data.retry) note(t, e, `the model call failed and is tried again: ${e.data.error.message}`);
      break;
    }
    case "tool.started":
      if (e.data.attempt <= 1) {
        step(t, e, { type: "tool_call", agent, tool: e.data.name, call: e.data.call, input: e.data.input });
      }
      break;
    case "tool.ended":
      step(t, e, {
        type: "tool_result",
        agent,
        tool: e.data.name,
        call: e.data.call,
        result: e.data.output,
        outcome: e.data.outcome,
      });
      break;
    case "turn.steered":
      note(t, e, `message from the user: ${textOf(e.data.message.parts)}${resourcesOf(e.data.message.parts).map((r) => `\n[attached: @${r.server}:${r.uri}]`).join("")}`);
      break;
    case "turn.stop_requested":
      t.stopping = true;
      break;
    case "turn.interrupted":
      t.status = "interrupted";
      setResumes(t, e.data.resumes);
      set(t, "reason", e.data.reason);
      note(t, e, `interrupted: ${e.data.reason}`);
      break;
    case "turn.resumed":
      t.status = "running";
      setResumes(t, false);
      set(t, "reason", "");
      note(t, e, "resumed");
      break;
    case "memory.updated":
      if (e.data.dropped) note(t, e, "earlier turns were summed up");
      break;
    case "budget.reached":
      note(t, e, `budget reached: ${e.data.name}`);
      break;
    case "hook.ran":
    case "files.saved":
    case "runtime.noted": {
      const text = noteOf(e);
      if (text) note(t, e, text);
      break;
    }
    case "interaction.opened":
      t.status = "waiting";
      t.interactions = [...(t.interactions ?? []), e.data as Interaction];
      break;
    case "context.observed":
      if (t.interactions) t.interactions = t.interactions.map((i) => hearing(i, e.data));
      break;
    case "interaction.answered":
    case "interaction.expired":
      closeInteraction(t, e.data.id);
      break;
    case "turn.completed":
      set(t, "answer", e.data.response.message);
      setList(t, "citations", e.data.response.citations);
      setList(t, "follow_ups", e.data.response.follow_ups);
      end(t, e, "completed", e.data.usage);
      break;
    case "turn.failed":
      t.error = e.data.error;
      set(t, "answer", e.data.response?.message);
      end(t, e, "failed", e.data.usage);
      break;
    case "turn.cancelled":
      set(t, "reason", e.data.reason);
      set(t, "answer", e.data.response?.message);
      end(t, e, "cancelled", e.data.usage);
      break;
    case "turn.expired":
      set(t, "reason", e.data.reason);
      end(t, e, "expired", e.data.usage);
      break;
  }
}

/** The turns and rewinds with what these rewinds take back marked. What does not change stays the same object. */
export function marked(turns: readonly TurnView[], rewinds: readonly RewindView[]): { turns: TurnView[]; rewinds: RewindView[] } {
  const gaps = skips(rewinds);
  const mark = <T extends { seq: number; rewound?: number }>(x: T): T => {
    const by = skipped(gaps, x.seq);
    if (by === (x.rewound ?? 0)) return x;
    const { rewound: _was, ...rest } = x;
    return (by > 0 ? { ...rest, rewound: by } : rest) as T;
  };
  return { turns: turns.map((t) => (t.status === "pending" ? t : mark(t))), rewinds: rewinds.map(mark) };
}

/** A stretch of the log that the conversation skips, from its first to its last event, and the rewind after it. */
interface Skip {
  from: number;
  to: number;
  by: number;
}

/** What the conversation skips. The way back leads from each rewind to the event that it took the session back to. */
export function skips(rewinds: readonly (Pick<Rewind, "what" | "to"> & { seq: number })[]): Skip[] {
  const out: Skip[] = [];
  let at = Number.POSITIVE_INFINITY;
  for (const r of rewinds.toReversed()) {
    if (r.seq > at || r.what === "files") continue;
    if (r.to + 1 < r.seq) out.push({ from: r.to + 1, to: r.seq - 1, by: r.seq });
    at = r.to;
  }
  return out;
}

/** The rewind that took an event back, or 0. */
export function skipped(gaps: readonly Skip[], seq: number): number {
  return gaps.find((g) => g.from <= seq && seq <= g.to)?.by ?? 0;
}

/** A question about a write whose outcome is unknown, with the late report of the client that had the call. */
export function hearing(i: Interaction, seen: ContextObserved): Interaction {
  if (seen.source !== "client" || i.kind !== "unknown" || i.call !== seen.ref) return i;
  return { ...i, text: i.text ? `${i.text}\n${seen.text}` : seen.text };
}

/** What the denial of a hook did, for events that are not calls. */
const denials: Record<string, string> = {
  UserPromptSubmit: "blocked the message",
  Stop: "made the agent continue",
  SubagentStop: "made the agent continue",
  PreCompact: "kept earlier turns from being summed up",
};

/** The step of a model call whose reply a server gets. */
export const samplingOf = (s: Sampling, model: string): string => `the model ${model} replies to the server ${s.server}`;

/** The text of a hook, a change of files or a runtime's note for people; empty if they need not know it. */
export function noteOf(e: Event): string {
  switch (e.type) {
    case "hook.ran": {
      const why = e.data.reason ? `: ${e.data.reason}` : "";
      if (e.data.error) return `the hook ${e.data.name} failed: ${e.data.error.message}`;
      if (e.data.message) return `the hook ${e.data.name} says: ${e.data.message}`;
      if (e.data.decision === "deny") return `the hook ${e.data.name} ${denials[e.data.event] ?? "denied it"}${why}`;
      if (e.data.decision === "ask") return `the hook ${e.data.name} wants a person to be asked${why}`;
      if (e.data.input) return `the hook ${e.data.name} changed the input${why}`;
      return e.data.output != null || e.data.context ? `the hook ${e.data.name} told the model something about it` : "";
    }
    case "files.saved": {
      const [first, ...more] = e.data.files ?? [];
      if (!first) return "";
      return `changed ${first.path}${more.length > 0 ? ` and ${more.length} more` : ""}`;
    }
    case "runtime.noted":
      return e.data.text;
    default:
      return "";
  }
}

function step(t: TurnView, e: Event, s: Omit<StepView, "seq" | "at">): void {
  const full: Record<string, unknown> = { seq: e.seq, at: e.time };
  for (const [name, value] of Object.entries(s)) if (value !== "" && value !== undefined) full[name] = value;
  t.steps?.push(full as unknown as StepView);
}

function note(t: TurnView, e: Event, text: string): void {
  step(t, e, { type: "note", agent: e.agent ?? "", text });
}

function end(t: TurnView, e: Event, status: TurnStatus, usage: Usage): void {
  t.status = status;
  delete t.stopping;
  delete t.resumes;
  t.ended_at = e.time;
  t.usage = usage;
  delete t.interactions;
}

function closeText(t: TurnView, call: string, text: string, cut: boolean): void {
  t.texts?.forEach((have, i, all) => {
    if (have.call !== call) return;
    all[i] = { call, agent: have.agent, text, ...(cut && { cut }) };
  });
}

function closeInteraction(t: TurnView, id: string): void {
  const open = (t.interactions ?? []).filter((i) => i.id !== id);
  setList(t, "interactions", open);
  if (open.length === 0 && t.status === "waiting") t.status = "running";
}

/** Fields that Go omits from JSON when empty are omitted here too. */
function set<K extends "by" | "client" | "retry_of" | "entry" | "answer" | "reason">(t: TurnView, name: K, value: string | undefined): void {
  if (value) t[name] = value;
  else delete t[name];
}

function setResumes(t: TurnView, resumes: boolean | undefined): void {
  if (resumes) t.resumes = true;
  else delete t.resumes;
}

function setList<K extends "citations" | "follow_ups" | "interactions">(t: TurnView, name: K, value: TurnView[K]): void {
  if (value && value.length > 0) t[name] = value;
  else delete t[name];
}

/** The resources that a message has attached, each once. */
export function resourcesOf(parts: readonly Part[] | null | undefined): ResourceRef[] {
  const list: ResourceRef[] = [];
  for (const { server, uri = "", title } of parts ?? []) {
    if (server && !list.some((r) => r.server === server && r.uri === uri)) list.push({ server, uri, ...(title && { title }) });
  }
  return list;
}

/** The files that a message has, without those of MCP servers. */
export function attachmentsOf(parts: readonly Part[] | null | undefined): Attachment[] {
  const list: Attachment[] = [];
  for (const p of parts ?? []) {
    if (!p.artifact || p.server || (p.type !== "attachment" && p.type !== "image" && p.type !== "file")) continue;
    const media_type = p.media_type ?? "";
    list.push({
      id: p.artifact,
      name: p.name ?? "",
      media_type,
      size: p.size ?? 0,
      ...(media_type.startsWith("image/") && { image: true }),
      ...(p.is_error && { unread: p.text ?? "" }),
    });
  }
  return list;
}

/** The text of a message: its text parts, joined. */
export function textOf(parts: readonly Part[] | null | undefined): string {
  let text = "";
  for (const p of parts ?? []) if (p.type === "text") text += p.text ?? "";
  return text;
}
