// The sub-agents of a turn as a tree, from its events: who works for whom, and how far each is.

import type { Event, Outcome, Usage } from "../api/types.gen.ts";
import { agentName } from "./exchange.ts";
import { awaitedBy, type Awaited } from "./inbox.ts";

/** "asks": it waits for a person. "offers": it waits for a client. "stopped": it was ended before it had a result. */
export type MemberState = "working" | "asks" | "offers" | "done" | "failed" | "stopped";

export interface MemberCall {
  call: string;
  tool: string;
  input: unknown;
  /** Not set while it is under way. */
  outcome?: Outcome;
  text: string;
}

export interface Member {
  /** Its instance in the turn, such as "lead/reader#2". */
  path: string;
  label: string;
  /** Its task in a few words. */
  title: string;
  background: boolean;
  state: MemberState;
  /** The calls of tools that it made, without those that started other agents. */
  calls: readonly MemberCall[];
  /** Its open questions. */
  questions: readonly { id: string; title: string; awaited: Awaited }[];
  /** What its own model calls used, without those of its members. */
  tokens: number;
  usd: number;
  /** What it returned, or why it failed. */
  result: string;
  members: readonly Member[];
}

/** Whether a path is that of a sub-agent. */
export const isSub = (path: string | undefined): boolean => (path ?? "").includes("/");

/** "reader #2" of "lead/reader#2". */
export const labelOf = (path: string | undefined): string => agentName(path) + (/#(\d+)$/.exec(path ?? "")?.[0].replace("#", " #") ?? "");

/** A path within another, or the same. */
const within = (path: string, at: string): boolean => path === at || path.startsWith(`${at}/`);

type Growing = { -readonly [K in keyof Member]: Member[K] } & { calls: MemberCall[]; questions: { id: string; title: string; awaited: Awaited }[]; members: Growing[]; ended: boolean };

/** The sub-agents of a turn in the order in which they were started. open: the turn has not ended. */
export function teamOf(events: readonly Event[], open: boolean): readonly Member[] {
  const all = new Map<string, Growing>();
  const top: Growing[] = [];
  const starts = new Set<string>(); // calls that started an agent
  for (const e of events) {
    if ((e.v ?? 0) > 0 || e.data === null || e.data === undefined) continue;
    const path = e.agent ?? "";
    if (e.type === "agent.started") {
      if (!e.data.parent || agentName(path) === "memory") continue;
      const m: Growing = { path, label: labelOf(path), title: e.data.title ?? "", background: e.data.background ?? false, state: "working", calls: [], questions: [], tokens: 0, usd: 0, result: "", members: [], ended: false };
      all.set(path, m);
      (all.get(e.data.parent)?.members ?? top).push(m);
      if (e.data.call) starts.add(e.data.call);
      continue;
    }
    if (e.type === "interaction.answered" || e.type === "interaction.expired") {
      // An answer may be recorded without the agent that asked.
      for (const m of all.values()) m.questions = m.questions.filter((q) => q.id !== e.data.id);
      continue;
    }
    const m = all.get(path);
    if (!m) continue;
    switch (e.type) {
      case "model.replied":
      case "model.failed":
        m.tokens += tokensOf(e.data.usage);
        m.usd += e.data.usage?.usd ?? 0;
        break;
      case "tool.started":
        if (e.data.attempt <= 1) m.calls.push({ call: e.data.call, tool: e.data.name, input: e.data.input, text: "" });
        break;
      case "tool.ended": {
        const { call, name, outcome, output, error } = e.data;
        const at = m.calls.findIndex((c) => c.call === call);
        const made = { call, tool: name, input: m.calls[at]?.input, outcome, text: output || (error?.message ?? "") };
        if (at >= 0) m.calls[at] = made;
        else m.calls.push(made); // the call was refused
        break;
      }
      case "interaction.opened":
        m.questions.push({ id: e.data.id, title: e.data.title, awaited: awaitedBy(e.data) });
        break;
      case "agent.ended":
        m.result = e.data.result ?? "";
        end(m, e.data.outcome === "ok" ? "done" : e.data.outcome === "cancelled" ? "stopped" : "failed");
        for (const below of all.values()) if (within(below.path, path)) end(below, "stopped");
        break;
    }
  }
  for (const m of all.values()) {
    if (!open) end(m, "stopped");
    else if (!m.ended && m.questions.length > 0) m.state = m.questions.some((q) => q.awaited === "person") ? "asks" : "offers";
    m.calls = m.calls.filter((c) => !starts.has(c.call));
  }
  return top;
}

function end(m: Growing, how: MemberState): void {
  if (m.ended) return;
  m.ended = true;
  m.state = how;
  m.questions = [];
}

const tokensOf = (u: Usage | undefined): number => (u ? u.input_tokens + u.output_tokens + (u.cache_read_tokens ?? 0) + (u.cache_write_tokens ?? 0) : 0);

/** All members of a team, each before those that work for it. */
export const everyone = (team: readonly Member[]): Member[] => team.flatMap((m) => [m, ...everyone(m.members)]);
