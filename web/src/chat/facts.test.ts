import { expect, test } from "vitest";

import type { TurnView } from "../api/types.gen.ts";
import { exchangesOf, type Exchange } from "../session/exchange.ts";
import { factsOf, modelsOf, partsOf, sessionFact, spentIn } from "./facts.ts";

const usage = (usd: number, more = {}) => ({ input_tokens: 1200, output_tokens: 34, usd, ...more });
const turn = (t: Partial<TurnView>): TurnView =>
  ({ id: "a", status: "completed", origin: "user", message: "?", asked_at: "2026-03-01T10:00:00Z", ended_at: "2026-03-01T10:00:02Z", steps: [], texts: [], models: [], ...t }) as TurnView;
const shown = (...turns: Partial<TurnView>[]): Exchange[] => exchangesOf(turns.map(turn), new Map());

test.each<[string, Partial<TurnView>, string]>([
  ["a real model is named", { usage: usage(0.0213), models: ["anthropic/claude-x", "openrouter/meta/llama"] }, "1,234 tokens · $0.0213 · 2.0 s · claude-x · meta/llama"],
  ["rules are no model", { usage: usage(0), models: ["scripted/home"] }, "1,234 tokens · $0.00 · 2.0 s"],
  ["what was reserved is a bound, and no count", { status: "cancelled", usage: usage(0, { estimated: true }) }, "at most 1,234 tokens · $0.00 · 2.0 s"],
  ["so is its price", { status: "cancelled", usage: usage(0.5, { estimated: true }) }, "at most 1,234 tokens · at most $0.50 · 2.0 s"],
])("%s", (_, t, want) => expect(factsOf(shown(t)[0] as Exchange).join(" · ")).toBe(want));

test("a conversation costs what its turns cost, with attempts that are not shown", () => {
  const list = shown({ id: "a", usage: usage(0.01) }, { id: "b", usage: usage(0.02), status: "failed" }, { id: "c", retry_of: "b", usage: usage(0.03), status: "failed" }, { id: "d", retry_of: "c", usage: usage(0.04) });
  expect(list.map((x) => [x.id, x.attempt])).toEqual([["a", 1], ["d", 3]]);
  expect(spentIn(list)).toBeCloseTo(0.1);
  expect(sessionFact(0.1, list[1] as Exchange)).toBe("$0.10 in this conversation");
  expect(sessionFact(0.01, list[0] as Exchange)).toBe("");
  expect(sessionFact(0, shown({})[0] as Exchange)).toBe("");
});

test("an error that passes says when, by the server's own clock", () => {
  const error = { code: "quota", message: "spent", retry_after_ms: 60_000 };
  expect(shown({ status: "failed", error })[0]).toMatchObject({ retryAt: Date.parse("2026-03-01T10:01:02Z") });
  expect(shown({ status: "failed", error: { code: "internal", message: "no" } })[0]).not.toHaveProperty("retryAt");
});

test("the models of an app are named with their providers and whom they answer for", () => {
  const app = { model: { name: "scripted/chaos", scripted: true }, agents: [{ name: "interface" }, { name: "scavenger", model: "mistral/small" }, { name: "synthesizer" }] };
  expect(modelsOf(app, "")).toEqual([
    { model: "scripted/chaos", agents: ["interface", "synthesizer"] },
    { model: "mistral/small", agents: ["scavenger"] },
  ]);
  expect(modelsOf(app, "anthropic/claude-x"), "chosen for the conversation").toEqual([{ model: "anthropic/claude-x" }]);
  expect(["scripted/chaos", "openrouter/meta/llama", "local"].map(partsOf)).toEqual([
    { name: "chaos", provider: "script" },
    { name: "meta/llama", provider: "openrouter" },
    { name: "local", provider: "" },
  ]);
});
