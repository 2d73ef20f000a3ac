import { describe, expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { whyOf } from "./why.ts";

const at = (s: number) => new Date(Date.UTC(2026, 10, 1, 12, 0, s)).toISOString();
const events = (list: readonly [number, string, unknown][]) => list.map(([s, type, data], i) => ({ session: "s", seq: i + 1, turn: "t", time: at(s), type, data })) as unknown as Event[];
const turn = (standing: string, more: object = {}) => ({ standing, asked: [], stopping: false, ...more }) as unknown as Parameters<typeof whyOf>[0];
const usage = { input_tokens: 900, output_tokens: 100 };

describe("why", () => {
  test("a turn that outlived its server is told with its gap", () => {
    const why = whyOf(
      turn("completed"),
      events([
        [0, "turn.started", {}],
        [0, "model.started", { call: "a", model: "m" }],
        [1, "model.replied", { call: "a", usage }],
        [2, "tool.ended", { call: "t1", name: "read_slack_mock", outcome: "ok" }],
        [3, "turn.interrupted", { reason: "the server stopped" }],
        [8, "turn.resumed", { attempt: 1 }],
        [8, "model.started", { call: "b", model: "m" }],
        [9, "model.failed", { call: "b", error: { code: "x", message: "y" }, retry: true }],
        [9, "model.started", { call: "c", model: "m" }],
        [10, "model.replied", { call: "c", usage }],
        [10, "turn.completed", {}],
      ]),
    );
    expect(why).toEqual({
      verdict: "It was answered, after 10 s.",
      facts: ["3 model calls, 1 failed and 1 of them tried again; 2,000 tokens", "tool read_slack_mock: 1 ok", "resumed 1 time after an interruption; no work was done for 5.0 s"],
    });
  });

  test("a write whose outcome nobody knows is named", () => {
    const why = whyOf(turn("cancelled", { reason: "stopped on the page" }), events([[0, "turn.started", {}], [1, "tool.ended", { call: "c", name: "pay", outcome: "unknown" }], [1, "turn.cancelled", { by: "ana" }]]));
    expect(why.verdict).toBe("It was stopped. Stopped on the page. The outcome of a call of pay is unknown: it may have taken effect. Check there before you ask again.");
  });

  const lost: [number, string, unknown][] = [
    [1, "tool.ended", { call: "c", name: "pay", outcome: "unknown" }],
    [1, "interaction.opened", { id: "i", kind: "unknown", call: "c" }],
  ];
  const unknown = "The outcome of a call of pay is unknown: it may have taken effect. Check there before you ask again.";
  test.each([
    ["happened", [], "It was answered, after 2.0 s.", ["A person said that the call of pay took effect."]],
    ["did_not", [], "It was answered, after 2.0 s.", ["A person said that the call of pay took no effect."]],
    ["again", [[2, "tool.ended", { call: "c", name: "pay", outcome: "ok" }]], "It was answered, after 2.0 s.", ["tool pay: 1 ok", "A person said to make the call of pay again."]],
    ["again", [[2, "tool.ended", { call: "c", name: "pay", outcome: "unknown" }]], `It was answered, after 2.0 s. ${unknown}`, ["tool pay: 1 unknown", "A person said to make the call of pay again."]],
    ["leave", [], `It was answered, after 2.0 s. ${unknown}`, ["tool pay: 1 unknown"]],
  ] as [string, [number, string, unknown][], string, string[]][])("what a person said about a lost write holds: %s", (choice, more, verdict, facts) => {
    const list: [number, string, unknown][] = [[0, "turn.started", {}], ...lost, [2, "interaction.answered", { id: "i", answer: { choice } }], ...more, [2, "turn.completed", {}]];
    expect(whyOf(turn("completed"), events(list))).toEqual({ verdict, facts });
  });

  test.each([
    ["failed", { error: { code: "model_error", message: "the model is overloaded", hint: "try again later" } }, [], "It failed: The model is overloaded. Try again later."],
    ["failed", {}, [[1, "budget.reached", { name: "max_steps", used: 12, limit: 12 }]], "It failed because a budget was reached: max_steps, 12 of 12. The app's app.yaml sets it under budgets."],
    ["cancelled", {}, [[1, "turn.cancelled", { by: "superseded" }]], "It was interrupted, and then closed because the next message came."],
    ["waiting", { asked: [{ interaction: { title: "Turn on the lamp?" } }] }, [], "It waits for a person: Turn on the lamp?"],
    ["waiting", { asked: [{ interaction: { kind: "client", title: "A client must run add_note" } }] }, [], "It waits for a client: A client must run add_note."],
    ["interrupted", { reason: "the server stopped" }, [], "It was interrupted: The server stopped. What was done is kept. Resume it to go on from there, or try again to start over."],
    ["interrupted", {}, [[1, "tool.started", { call: "a", name: "pay", effect: "write", input: {} }]], "It was interrupted: The server stopped. pay was running and may have taken effect. That is found out, or you are asked, when the turn goes on."],
    ["resuming", {}, [], "It was interrupted, and goes on by itself."],
    ["running", {}, [], "It is running."],
    ["running", { stopping: true }, [], "It is being stopped, and waits for what it has started."],
    ["expired", {}, [], "It expired: Nobody answered or resumed it in time."],
    ["pending", {}, [], "It waits in the queue."],
  ] as [string, object, [number, string, unknown][], string][])("%s %j", (standing, more, list, want) => {
    expect(whyOf(turn(standing, more), events(list)).verdict).toBe(want);
  });
});
