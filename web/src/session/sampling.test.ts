import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { reduceAll, empty } from "./reduce.ts";
import { stepsOf } from "./steps.ts";
import { waterfallOf } from "./waterfall.ts";
import { whyOf } from "./why.ts";

// A turn in which a server gets replies of the model in a call of a tool.
const events = readFileSync(join(import.meta.dirname, "../../../testdata/logs/sampling.ndjson"), "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line) as Event);
const turn = events.filter((e) => e.turn);

test("what a server gets is no text of the agent, and is told of", () => {
  const view = reduceAll(empty, events).turns?.[0];
  expect(view?.texts?.map((t) => t.call)).toEqual(["c1"]);
  expect(view?.steps?.filter((s) => s.type === "note").map((s) => [s.agent, s.text])).toEqual([
    ["interface", "the model m replies to the server deep"],
    ["interface", "the model m replies to the server deep"],
    ["interface", "the server got no reply: overloaded"],
    ["interface", "the model m replies to the server deep"],
  ]);
});

test("the steps have what was asked and replied in full, as the agent's", () => {
  const steps = stepsOf(turn).filter((s) => s.kind === "note" || s.kind === "error");
  expect(steps.slice(0, 2).map((s) => [s.agent, s.text, s.detail])).toEqual([
    ["interface", "the model m replies to the server deep, which asked:", "Be brief.\n\nuser: What makes tides?"],
    ["interface", "replied:", "The moon."],
  ]);
  expect(steps.map((s) => s.text)).toContain("the model call failed: overloaded");
});

test("the timeline names the server, in the lane of the agent", () => {
  const bars = waterfallOf(turn, Date.parse("2026-03-01T09:01:00Z"))?.bars.filter((b) => b.kind === "model");
  expect(bars?.map((b) => [b.agent, b.label, b.open, b.failed])).toEqual([
    ["interface", "m", false, false],
    ["interface", "m for deep", false, false],
    ["interface", "m for deep", false, true],
    ["interface", "m for deep", true, false],
  ]);
});

test("why counts what it used apart", () => {
  const why = whyOf({ standing: "running", asked: [], stopping: false } as unknown as Parameters<typeof whyOf>[0], turn);
  expect(why.facts[0]).toMatch(/^4 model calls, 1 failed; 104 tokens/);
  expect(why.facts[1]).toMatch(/^of these for the server deep: 3 model calls; 86 tokens/);
});
