import { expect, test } from "vitest";

import type { Bar } from "../../session/waterfall.ts";
import { wordsOf } from "../../views/home/calls.ts";
import { factsOf, sayOf } from "./Timeline.tsx";

const bar = (b: Partial<Bar>): Bar => ({ key: "k", kind: "tool", agent: "", label: "", from: 0, to: 90, open: false, failed: false, retried: false, attempt: 1, note: "", ...b });
const names = new Map([["light.bedroom", { name: "Bedroom lamp" }]]);

test("a row of the timeline is read in words", () => {
  const say = (b: Partial<Bar>) => sayOf(bar(b), wordsOf(names));
  expect(say({ label: "diagnose_entity", input: { entity: "light.bedroom" } })).toBe("Looks at what Bedroom lamp did, and what else happened then");
  expect(say({ label: "read_slack_mock", input: { query: "login" } })).toBe("Read slack mock: login");
  expect(say({ kind: "model", label: "mistral/small" })).toBe("Thinks");
  expect(say({ kind: "wait", label: "Turn on light.bedroom?" })).toBe("Turn on Bedroom lamp?");
  expect(say({ kind: "queue", label: "in the queue" })).toBe("In the queue");
});

test("which model thought is said, but not of a script", () => {
  expect(factsOf(bar({ kind: "model", label: "mistral/small" }))).toBe("small · 90 ms");
  expect(factsOf(bar({ kind: "model", label: "scripted/home" }))).toBe("90 ms");
});
