// Logs for the tests of the cards. One is also folded by Go. The others are written here, because no tool in a test
// can open such an interaction.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import type { Event, Interaction } from "../src/api/types.gen.ts";

export function recorded(name: string): Event[] {
  return readFileSync(join(import.meta.dirname, "../../testdata/logs", `${name}.ndjson`), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Event);
}

/** The log of a turn that waits for an answer. */
export function asking(id: string, message: string, ask: Partial<Interaction> & Pick<Interaction, "kind" | "title">, ago = 8000): Event[] {
  const session = `S-${id}`;
  const turn = `T-${id}`;
  const usage = { input_tokens: 640, output_tokens: 52 };
  const begun = Date.now() - ago;
  const events: { after: number; type: Event["type"]; agent?: string; turn?: string; data: unknown }[] = [
    { after: 0, type: "session.created", data: { app: "home", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 2 } },
    { after: 0, turn, type: "turn.started", data: { origin: "user", message: { role: "user", parts: [{ type: "text", text: message }] }, budgets: {}, app: "d", by: "local", client: "api" } },
    { after: 5, turn, agent: "home", type: "agent.started", data: { name: "home" } },
    { after: 10, turn, agent: "home", type: "model.started", data: { call: "m1", model: "scripted/home", context: "x", reserved: usage } },
    { after: 900, turn, agent: "home", type: "model.replied", data: { call: "m1", model: "scripted/home", parts: [{ type: "text", text: "I need you for this." }, { type: "tool_call", call: "c1", name: ask.tool ?? "AskUserQuestion", input: ask.input ?? {} }], usage, ttft_ms: 350 } },
    {
      after: 910,
      turn,
      agent: "home",
      type: "interaction.opened",
      data: { id: `I-${id}`, session, turn, agent: "home", call: "c1", opened_at: new Date(begun + 910).toISOString(), ...ask },
    },
  ];
  return events.map(({ after, ...e }, i) => ({ session, seq: i + 1, time: new Date(begun + after).toISOString(), ...e }) as Event);
}

/**
 * The log of a conversation with real models: one fails, another replaces it, the
 * house changes meanwhile, the answers have costs, and then the day's budget is
 * used up.
 */
export function expensive(): Event[] {
  const session = "S-usd";
  const begun = Date.now() - 20_000;
  const message = (text: string) => ({ role: "user", parts: [{ type: "text", text }] });
  const usage = { input_tokens: 5200, output_tokens: 310, usd: 0.0421 };
  const [big, small, other] = ["anthropic/claude-opus", "anthropic/claude-haiku", "openai/gpt"];
  const started = (call: string, model: string) => ({ type: "model.started" as const, agent: "home", data: { call, model, context: "x", reserved: usage } });
  const events: { turn?: string; type: Event["type"]; agent?: string; data: unknown }[] = [
    { type: "session.created", data: { app: "home", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 2 } },
    { turn: "T-1", type: "turn.started", data: { origin: "user", message: message("Turn on the garden light."), budgets: {}, app: "d", by: "local", client: "api" } },
    { turn: "T-1", agent: "home", type: "agent.started", data: { name: "home" } },
    { turn: "T-1", agent: "home", type: "context.transferred", data: { from: other, to: big, text: "Another model answered so far: the garden light was off." } },
    { turn: "T-1", ...started("m1", big as string) },
    { turn: "T-1", agent: "home", type: "model.failed", data: { call: "m1", error: { code: "unavailable", message: "overloaded" }, retry: true, usage: {}, fallback: small } },
    { turn: "T-1", ...started("m2", small as string) },
    { turn: "T-1", agent: "home", type: "context.observed", data: { source: "homeassistant", ref: "light.garden", text: "off → on", at: new Date(begun + 7000).toISOString() } },
    { turn: "T-1", agent: "home", type: "model.replied", data: { call: "m2", model: small, parts: [{ type: "text", text: "The garden light is on." }], usage } },
    { turn: "T-1", type: "turn.completed", data: { response: { message: "The garden light is on." }, usage: { ...usage, usd: 0.0421 } } },
    { turn: "T-2", type: "turn.started", data: { origin: "user", message: message("And the one in the kitchen."), budgets: {}, app: "d", by: "local", client: "api" } },
    { turn: "T-2", agent: "home", type: "agent.started", data: { name: "home" } },
    { turn: "T-2", ...started("m3", small as string) },
    { turn: "T-2", agent: "home", type: "model.replied", data: { call: "m3", model: small, parts: [{ type: "text", text: "I look for it." }, { type: "tool_call", call: "c1", name: "index_search", input: {} }], usage } },
    {
      turn: "T-2",
      type: "turn.failed",
      data: { error: { code: "quota", message: "your 0.10 US dollars for today are spent", hint: "the operator of this server can raise the limit", retry_after_ms: 45_000 }, usage: { ...usage, usd: 0.05 } },
    },
  ];
  return events.map((e, i) => ({ session, seq: i + 1, time: new Date(begun + i * 1000).toISOString(), ...e }) as Event);
}

export const inAnHour = (): string => new Date(Date.now() + 3600_000).toISOString();

/** The log of a conversation: each question with its answer. Without an answer the last turn runs, and its call is "m" with its number. */
export function answered(id: string, exchanges: readonly [question: string, answer?: string][], app = "chaos"): Event[] {
  const session = `S-${id}`;
  const usage = { input_tokens: 100, output_tokens: 50 };
  const events: { turn?: string; agent?: string; type: Event["type"]; data: unknown }[] = [
    { type: "session.created", data: { app, user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 1 } },
  ];
  exchanges.forEach(([question, answer], i) => {
    const turn = `T-${id}-${i}`;
    const call = `m${i}`;
    events.push(
      { turn, type: "turn.started", data: { origin: "user", message: { role: "user", parts: [{ type: "text", text: question }] }, budgets: {}, app: "d", by: "local", client: "api" } },
      { turn, agent: "interface", type: "agent.started", data: { name: "interface" } },
      { turn, agent: "interface", type: "model.started", data: { call, model: "scripted", context: "x", reserved: usage } },
    );
    if (answer === undefined) return;
    events.push(
      { turn, agent: "interface", type: "model.replied", data: { call, model: "scripted", parts: [{ type: "text", text: answer }], usage } },
      { turn, type: "turn.completed", data: { response: { message: answer }, usage } },
    );
  });
  const begun = Date.now() - 60_000;
  return events.map((e, i) => ({ session, seq: i + 1, time: new Date(begun + i).toISOString(), ...e }) as Event);
}
