// A turn as bars over time, drawn from its events alone: calls, waits and costs. Long waits are
// shortened, and marked as such.

import type { Event, Interaction, Outcome, Usage } from "../api/types.gen.ts";
import { awaitedBy } from "./inbox.ts";
import { agentName, callerOf } from "./exchange.ts";
import { noteOf } from "./reduce.ts";
import { labelOf } from "./team.ts";
import { closingOf } from "./outcome.ts";

/** When the server that ran an interrupted turn died, in ms. The event itself was written later. Old logs do not have this time. */
export const diedAt = (e: Extract<Event, { type: "turn.interrupted" }>): number => Date.parse((e.data?.last ?? "") || e.time);

/** Whether the turn waits for somebody outside the server. */
export const isWait = (kind: BarKind | undefined): boolean => kind === "wait" || kind === "offer";

export type BarKind = "model" | "tool" | "wait" | "offer" | "down" | "queue";

export interface Bar {
  key: string;
  kind: BarKind;
  agent: string;
  label: string;
  /** The input of a tool's call; its label is the tool's name. */
  input?: unknown;
  /** ms since the epoch. */
  from: number;
  to: number;
  /** It has not ended; the bar extends to now. */
  open: boolean;
  /** It failed, was denied, or its outcome is unknown. */
  failed: boolean;
  /** It was retried or will be. */
  retried: boolean;
  attempt: number;
  usage?: Usage;
  ttftMs?: number;
  outcome?: Outcome;
  note: string;
}

/** A moment: a handoff, or a message from a human. */
export interface Mark {
  at: number;
  text: string;
}

export interface Waterfall {
  from: number;
  to: number;
  bars: readonly Bar[];
  marks: readonly Mark[];
}

/** The bars of a turn up to now. */
export function waterfallOf(events: readonly Event[], now: number): Waterfall | undefined {
  const first = events[0];
  if (!first) return undefined;
  const from = Date.parse(first.time);
  const bars: Bar[] = [];
  const marks: Mark[] = [];
  const open = new Map<string, Bar>();
  const asked = new Map<string, Interaction>();
  const inputs = new Map<string, unknown>();
  const waits = new Set<string>(); // the calls under way that asked a person
  const servers = new Map<string, string>(); // the server that gets a model call's reply, in words, by call
  let to = from;
  let ended = false;
  const begin = (key: string, e: Event, bar: Pick<Bar, "kind" | "label"> & Partial<Bar>) => {
    const b: Bar = {
      key: `${key}.${e.seq}`,
      agent: labelOf(callerOf(e.agent)),
      from: Date.parse(e.time),
      to: Date.parse(e.time),
      open: true,
      failed: false,
      retried: false,
      attempt: 1,
      note: "",
      ...bar,
    };
    open.set(key, b);
    bars.push(b);
  };
  const end = (key: string, e: Event, how: Partial<Bar> = {}) => {
    const b = open.get(key);
    if (!b) return;
    open.delete(key);
    Object.assign(b, { to: Date.parse(e.time), open: false }, how);
  };
  for (const e of events) {
    const at = Date.parse(e.time);
    to = Math.max(to, at);
    if (!e.data) continue;
    switch (e.type) {
      case "turn.queued":
        begin("queue", e, { kind: "queue", label: "in the queue" });
        break;
      case "turn.started":
        end("queue", e);
        break;
      case "hook.ran": {
        const text = noteOf(e);
        if (text !== "") marks.push({ at, text });
        break;
      }
      case "agent.handoff":
        marks.push({ at, text: `${agentName(e.data.from)} → ${agentName(e.data.to)}` });
        break;
      case "model.started":
        if (e.data.for) servers.set(e.data.call, ` for ${e.data.for.server}`);
        begin(e.data.call, e, { kind: "model", label: e.data.model + (servers.get(e.data.call) ?? "") });
        break;
      case "model.replied":
        end(e.data.call, e, {
          label: e.data.model + (servers.get(e.data.call) ?? ""),
          usage: e.data.usage,
          ...(e.data.ttft_ms !== undefined && { ttftMs: e.data.ttft_ms }),
          note: e.data.stop_reason ?? "",
        });
        break;
      case "model.failed":
        end(e.data.call, e, { failed: true, retried: e.data.retry ?? false, usage: e.data.usage, note: e.data.error.message });
        break;
      case "tool.requested":
        inputs.set(e.data.call, e.data.input);
        break;
      case "tool.started": {
        const { call, name, input, attempt } = e.data;
        // A call that asked a person in its middle may wait for the answer by being made again: nothing was lost.
        const waited = waits.has(call);
        end(call, e, waited ? {} : { failed: true, retried: true, note: "its outcome was lost" });
        waits.delete(call);
        begin(call, e, { kind: "tool", label: name, input, attempt });
        break;
      }
      case "tool.ended": {
        const { call, name, outcome, error } = e.data;
        // A denied call never started.
        if (!open.has(call)) begin(call, e, { kind: "tool", label: name, input: inputs.get(call) });
        end(call, e, { outcome, failed: outcome !== "ok", note: error?.message ?? (outcome === "ok" ? "" : outcome) });
        break;
      }
      case "interaction.opened":
        asked.set(e.data.id, e.data);
        if (e.data.call && open.has(e.data.call)) waits.add(e.data.call);
        begin(e.data.id, e, { kind: awaitedBy(e.data) === "client" ? "offer" : "wait", label: e.data.title });
        break;
      case "interaction.answered":
        end(e.data.id, e, { note: closingOf(e.data, asked.get(e.data.id)) });
        break;
      case "interaction.expired":
        end(e.data.id, e, { failed: true, note: e.data.reason || "nobody answered in time" });
        break;
      case "turn.steered":
        marks.push({ at, text: "message from the user" });
        break;
      case "turn.interrupted": {
        // Calls that were running then have no end in the log, and probably stopped when the turn last showed signs of life:
        // after they began, whatever a clock said that was set meanwhile.
        const cut = [...open].filter(([, b]) => !isWait(b.kind));
        const died = Math.max(diedAt(e), ...cut.map(([, b]) => b.from));
        for (const [key] of cut) end(key, e, { to: died, failed: true, note: "cut off when the server stopped" });
        begin("down", e, { kind: "down", label: "interrupted", note: e.data.reason, from: died });
        break;
      }
      case "turn.resumed":
        end("down", e);
        break;
      case "turn.completed":
      case "turn.failed":
      case "turn.cancelled":
      case "turn.expired":
        ended = true;
        for (const key of [...open.keys()]) end(key, e);
        break;
    }
  }
  if (!ended) to = Math.max(to, now);
  for (const b of open.values()) b.to = to;
  return { from, to, bars, marks };
}

/** A stretch of the axis: a time range in ms, and the share of the width it covers. */
export interface Stretch {
  from: number;
  to: number;
  left: number;
  right: number;
  /** Its length is not proportional to time. */
  squeezed: boolean;
}

/** Idle time longer than this share of the busy time is shortened to it. */
const share = 0.12;

/** The time axis. Stretches in which only a human, the queue or nobody had to act take little room. */
export function axisOf(w: Waterfall): Stretch[] {
  const busy = union(w.bars.filter((b) => b.kind === "model" || b.kind === "tool").map((b) => [b.from, b.to]));
  const parts: { from: number; to: number; idle: boolean }[] = [];
  let at = w.from;
  for (const [from, to] of busy) {
    if (from > at) parts.push({ from: at, to: from, idle: true });
    if (to > from) parts.push({ from, to, idle: false });
    at = Math.max(at, to);
  }
  if (w.to > at) parts.push({ from: at, to: w.to, idle: true });
  const busyMs = parts.reduce((sum, p) => sum + (p.idle ? 0 : p.to - p.from), 0);
  const most = Math.max(50, busyMs * share);
  const lengths = parts.map((p) => (p.idle && busyMs > 0 ? Math.min(p.to - p.from, most) : p.to - p.from));
  const total = lengths.reduce((a, b) => a + b, 0) || 1;
  let left = 0;
  return parts.map((p, i) => {
    const length = lengths[i] ?? 0;
    const right = left + length / total;
    const s = { from: p.from, to: p.to, left, right, squeezed: length < (p.to - p.from) * 0.999 };
    left = right;
    return s;
  });
}

function union(spans: [number, number][]): [number, number][] {
  const out: [number, number][] = [];
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    const last = out.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/** The position of a time on the axis, as a share of its width. */
export function placeOf(axis: readonly Stretch[], at: number): number {
  for (const s of axis) {
    if (at > s.to) continue;
    if (at <= s.from || s.to === s.from) return s.left;
    return s.left + ((at - s.from) / (s.to - s.from)) * (s.right - s.left);
  }
  return axis.length > 0 ? 1 : 0;
}

const steps = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000];

/** Labels for the axis: few, round, and counted from the beginning. */
export function ticksOf(w: Waterfall, axis: readonly Stretch[], most = 6): { left: number; ms: number }[] {
  const shown = axis.filter((s) => !s.squeezed);
  const length = shown.reduce((sum, s) => sum + s.to - s.from, 0);
  const step = steps.find((s) => length / s <= most) ?? 3_600_000;
  const ticks: { left: number; ms: number }[] = [];
  for (const s of shown) {
    const first = Math.ceil((s.from - w.from) / step) * step;
    for (let ms = first; ms <= s.to - w.from && ticks.length < 40; ms += step) {
      const left = placeOf(axis, w.from + ms);
      const last = ticks.at(-1);
      if (!last || left - last.left > 0.07) ticks.push({ left, ms });
    }
  }
  return ticks;
}

/** A tick of the axis, and the side of it on which its label stands, if it has one. */
export interface Tick {
  left: number;
  ms: number;
  label?: "after" | "before";
  text: string;
}

/** Gives labels to the ticks, as many as fit beside each other and differ; room is the share of the width that one takes. */
export function labelled(ticks: readonly { left: number; ms: number }[], room: number, say: (ms: number) => string): Tick[] {
  let end = 0;
  let said = "";
  return ticks.map((t) => {
    const text = say(t.ms);
    const label = t.left + room <= 1 ? "after" : "before";
    if (text === said || (label === "after" ? t.left : t.left - room) < end) return { ...t, text };
    end = label === "after" ? t.left + room : t.left;
    said = text;
    return { ...t, text, label };
  });
}
