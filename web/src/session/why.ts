// What happened in a turn, why it stopped where it did, and what can be done now: in sentences,
// from its events alone. The command `parley session why` says the same in a terminal.

import type { Event, Outcome } from "../api/types.gen.ts";
import { count, dollars, sentence, took } from "../ui/text.ts";
import type { Exchange } from "./exchange.ts";
import { diedAt } from "./waterfall.ts";
import { unknownText, writesOf } from "./writes.ts";

export interface Why {
  /** How it stands, and what can be done. */
  verdict: string;
  /** What it was made of. */
  facts: string[];
}

export function whyOf(x: Pick<Exchange, "standing" | "error" | "reason" | "asked" | "stopping">, events: readonly Event[]): Why {
  const f = gather(events);
  const cut = x.standing === "interrupted" ? writesOf(events).filter((w) => w.state === "open") : [];
  return { verdict: [verdictOf(x, f, cut.map((w) => w.tool)), ...[...f.unknown.values()].map(unknownText)].join(" "), facts: factsOf(f) };
}

interface Facts {
  models: number;
  failed: number;
  retried: number;
  handoffs: number;
  tokens: number;
  usd: number;
  tools: Map<string, Map<Outcome, number>>;
  /** The model calls that servers got, by server. */
  servers: Map<string, { calls: number; tokens: number; usd: number }>;
  /** The tools of the calls whose outcome nobody knows, by call. */
  unknown: Map<string, string>;
  /** What a person said about others of them. */
  settled: string[];
  resumed: number;
  /** How long no server was at work on it, in ms. */
  gap: number;
  took: number;
  budget?: { name: string; used: number; limit: number };
  cancelledBy: string;
}

function gather(events: readonly Event[]): Facts {
  const f: Facts = { models: 0, failed: 0, retried: 0, handoffs: 0, tokens: 0, usd: 0, tools: new Map(), servers: new Map(), unknown: new Map(), settled: [], resumed: 0, gap: 0, took: 0, cancelledBy: "" };
  let cut = 0;
  const server = new Map<string, string>();
  const spend = (call: string, u: { input_tokens: number; output_tokens: number; cache_read_tokens?: number; cache_write_tokens?: number; usd?: number } | undefined) => {
    const tokens = (u?.input_tokens ?? 0) + (u?.output_tokens ?? 0) + (u?.cache_read_tokens ?? 0) + (u?.cache_write_tokens ?? 0);
    f.tokens += tokens;
    f.usd += u?.usd ?? 0;
    const of = f.servers.get(server.get(call) ?? "");
    if (of) {
      of.tokens += tokens;
      of.usd += u?.usd ?? 0;
    }
  };
  const asked = new Map<string, string>();
  const begun = Date.parse(events[0]?.time ?? "");
  for (const e of events) {
    f.took = Date.parse(e.time) - begun;
    if (!e.data) continue;
    switch (e.type) {
      case "model.started":
        f.models++;
        if (e.data.for) {
          const name = e.data.for.server;
          server.set(e.data.call, name);
          const of = f.servers.get(name) ?? { calls: 0, tokens: 0, usd: 0 };
          of.calls++;
          f.servers.set(name, of);
        }
        break;
      case "model.replied":
        spend(e.data.call, e.data.usage);
        break;
      case "model.failed":
        f.failed++;
        if (e.data.retry) f.retried++;
        spend(e.data.call, e.data.usage);
        break;
      case "agent.handoff":
        f.handoffs++;
        break;
      case "tool.ended": {
        const of = f.tools.get(e.data.name) ?? new Map<Outcome, number>();
        f.tools.set(e.data.name, of.set(e.data.outcome, (of.get(e.data.outcome) ?? 0) + 1));
        if (e.data.outcome === "unknown") f.unknown.set(e.data.call, e.data.name);
        break;
      }
      case "interaction.opened":
        if (e.data.kind === "unknown" && e.data.call) asked.set(e.data.id, e.data.call);
        break;
      case "interaction.answered": {
        const call = asked.get(e.data.id) ?? "";
        const tool = f.unknown.get(call);
        const said = settledAs[e.data.answer.choice ?? ""];
        if (tool === undefined || said === undefined) break;
        f.settled.push(said(readable(tool)));
        f.unknown.delete(call);
        const of = f.tools.get(tool);
        const left = (of?.get("unknown") ?? 0) - 1;
        if (left > 0) of?.set("unknown", left);
        else of?.delete("unknown");
        break;
      }
      case "turn.interrupted":
        cut = diedAt(e);
        break;
      case "turn.resumed":
        f.resumed++;
        if (cut > 0) f.gap += Date.parse(e.time) - cut;
        cut = 0;
        break;
      case "budget.reached":
        f.budget = e.data;
        break;
      case "turn.cancelled":
        f.cancelledBy = e.data.by ?? "";
        break;
    }
  }
  return f;
}

/** What a person decided about a call whose outcome was unknown, by the choice. */
const settledAs: Partial<Record<string, (tool: string) => string>> = {
  happened: (tool) => `A person said that the call of ${tool} took effect.`,
  did_not: (tool) => `A person said that the call of ${tool} took no effect.`,
  again: (tool) => `A person said to make the call of ${tool} again.`,
};

const readable = (tool: string): string => tool.replace(/^mcp__(.+?)__(.+)$/, "$2 of the server $1");

const outcomes: readonly Outcome[] = ["ok", "error", "denied", "cancelled", "unknown"];

function factsOf(f: Facts): string[] {
  const facts: string[] = [];
  if (f.models > 0) {
    const failed = f.failed > 0 ? `, ${f.failed} failed${f.retried > 0 ? ` and ${f.retried} of them tried again` : ""}` : "";
    facts.push(`${plural(f.models, "model call", "model calls")}${failed}; ${count(f.tokens)} tokens${f.usd > 0 ? `, ${dollars(f.usd)}` : ""}`);
  }
  for (const [name, of] of f.servers) {
    facts.push(`of these for the server ${name}: ${plural(of.calls, "model call", "model calls")}; ${count(of.tokens)} tokens${of.usd > 0 ? `, ${dollars(of.usd)}` : ""}`);
  }
  if (f.handoffs > 0) facts.push(plural(f.handoffs, "handoff between agents", "handoffs between agents"));
  for (const [tool, of] of f.tools) {
    if (of.size > 0) facts.push(`tool ${readable(tool)}: ${outcomes.flatMap((o) => (of.has(o) ? [`${of.get(o)} ${o}`] : [])).join(", ")}`);
  }
  facts.push(...f.settled);
  if (f.resumed > 0) facts.push(`resumed ${plural(f.resumed, "time", "times")} after an interruption; no work was done for ${took(f.gap)}`);
  return facts;
}

function verdictOf(x: Pick<Exchange, "standing" | "error" | "reason" | "asked" | "stopping">, f: Facts, cut: readonly string[]): string {
  const why = x.reason ? ` ${sentence(x.reason)}` : "";
  switch (x.standing) {
    case "completed":
      return `It was answered, after ${took(f.took)}.`;
    case "failed":
      if (f.budget) return `It failed because a budget was reached: ${f.budget.name}, ${f.budget.used} of ${f.budget.limit}. The app's app.yaml sets it under budgets.`;
      return x.error ? `It failed: ${sentence(x.error.message)} ${sentence(x.error.hint ?? "")}`.trim() : "It failed.";
    case "cancelled":
      switch (f.cancelledBy) {
        case "superseded":
          return "It was interrupted, and then closed because the next message came.";
        case "session_ended":
          return "It was cancelled because the conversation was ended.";
        case "forked":
        case "imported":
          return "It was open when this conversation was copied, and was closed in the copy.";
      }
      return `It was stopped.${why}`;
    case "expired":
      return `It expired: ${sentence(x.reason ?? "nobody answered or resumed it in time")}`;
    case "interrupted":
      if (cut.length > 0) {
        return `It was interrupted: ${sentence(x.reason ?? "the server stopped")} ${cut.map((tool) => `${tool} was running and may have taken effect.`).join(" ")} That is found out, or you are asked, when the turn goes on.`;
      }
      return `It was interrupted: ${sentence(x.reason ?? "the server stopped")} What was done is kept. Resume it to go on from there, or try again to start over.`;
    case "resuming":
      return "It was interrupted, and goes on by itself.";
    case "waiting": {
      const open = x.asked.filter((a) => !a.answer && a.expired === undefined).map((a) => a.interaction);
      const whom = open.length > 0 && open.every((i) => i.kind === "client") ? "a client" : "a person";
      return `It waits for ${whom}${open.length > 0 ? `: ${open.map((i) => i.title).join("; ")}` : ""}.`.replace(/([.?!])\.$/, "$1");
    }
    case "pending":
      return "It waits in the queue.";
    case "unsent":
      return "It was not sent.";
    default:
      return x.stopping ? "It is being stopped, and waits for what it has started." : "It is running.";
  }
}

const plural = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`;
