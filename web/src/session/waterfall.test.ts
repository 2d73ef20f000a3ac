import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { took } from "../ui/text.ts";
import { whyOf } from "./why.ts";
import { axisOf, labelled, placeOf, ticksOf, waterfallOf } from "./waterfall.ts";

const start = Date.parse("2026-03-01T10:00:00Z");
let seq = 0;
const at = (ms: number, type: string, data: unknown = {}): Event =>
  ({ session: "s", seq: ++seq, turn: "t", agent: "home", time: new Date(start + ms).toISOString(), type, data }) as unknown as Event;
const usage = { input_tokens: 10, output_tokens: 5, usd: 0.01 };
const bars = (events: Event[], now = start) =>
  waterfallOf(events, now)?.bars.map((b) => [b.kind, b.label, b.from - start, b.to - start, [b.open && "open", b.failed && "failed", b.retried && "retried"].filter(Boolean).join()]);

describe("waterfallOf", () => {
  test("the gap of a dead server begins when it last showed signs of life", () => {
    const events = [at(0, "turn.started"), at(10, "tool.started", { call: "c", name: "read", input: {}, attempt: 1 }), at(60_000, "turn.interrupted", { reason: "stopped", last: new Date(start + 900).toISOString() }), at(60_010, "turn.resumed", { attempt: 1 })];
    expect(bars(events)?.map(([kind, , from, to]) => [kind, from, to])).toEqual([["tool", 10, 900], ["down", 900, 60_010]]);
    expect(whyOf({ standing: "running", asked: [], stopping: false }, events).facts.join()).toMatch(/no work was done for 59 s/);
  });

  test("a call does not end before it began when the clock was set back meanwhile", () => {
    const events = [at(0, "turn.started"), at(10, "tool.started", { call: "c", name: "read", input: {}, attempt: 1 }), at(60_000, "turn.interrupted", { reason: "stopped", last: new Date(start - 5000).toISOString() }), at(60_010, "turn.resumed", { attempt: 1 })];
    expect(bars(events)?.map(([kind, , from, to]) => [kind, from, to])).toEqual([["tool", 10, 10], ["down", 10, 60_010]]);
  });

  test("what hooks decided stands among the marks", () => {
    const events = [at(0, "turn.started"), at(10, "hook.ran", { event: "PreToolUse", name: "hours.sh", decision: "deny", reason: "after 22:00" }), at(20, "hook.ran", { event: "Stop", name: "quiet.sh" })];
    expect(waterfallOf(events, start)?.marks.map((m) => m.text)).toEqual(["the hook hours.sh denied it: after 22:00"]);
  });

  test("a call that is made again after the answer to its question did not fail; one that was lost did", () => {
    const begun = (ms: number, attempt: number) => at(ms, "tool.started", { call: "c", name: "study", input: {}, attempt });
    const asked = [at(20, "interaction.opened", { id: "i", kind: "question", title: "May it?", call: "c" }), at(900, "interaction.answered", { id: "i", answer: { choice: "answered" } })];
    const [first, last] = [[at(0, "turn.started"), begun(10, 1)], [begun(910, 2), at(950, "tool.ended", { call: "c", name: "study", outcome: "ok" })]];
    expect(bars([...first, ...asked, ...last])?.map((b) => b[4])).toEqual(["", "", ""]);
    expect(bars([...first, ...last])?.map((b) => b[4])).toEqual(["failed,retried", ""]);
  });

  test("a call that is offered to clients waits for no person, and outlives the server", () => {
    const events = [at(0, "turn.started"), at(10, "interaction.opened", { id: "i", kind: "client", title: "A client must run read" }), at(500, "turn.interrupted", { reason: "stopped" }), at(900, "turn.resumed"), at(950, "interaction.expired", { id: "i" })];
    expect(bars(events)?.[0]).toEqual(["offer", "A client must run read", 10, 950, "failed"]);
  });

  test("calls, waits and their costs are bars in the order in which they began", () => {
    const events = [
      at(0, "turn.started"),
      at(10, "model.started", { call: "m", model: "asked" }),
      at(510, "model.replied", { call: "m", model: "given", parts: [], usage, ttft_ms: 200 }),
      at(520, "interaction.opened", { id: "i", title: "Allow it?" }),
      at(90_520, "interaction.answered", { id: "i", answer: { choice: "allow" }, by: "ana" }),
      at(90_530, "tool.started", { call: "k", name: "act", attempt: 1 }),
      at(90_730, "tool.ended", { call: "k", name: "act", outcome: "ok", output: "" }),
      at(90_740, "agent.handoff", { from: "home", to: "writer", name: "writer" }),
      at(90_800, "turn.completed", { response: { message: "" }, usage }),
    ];
    expect(bars(events)).toEqual([
      ["model", "given", 10, 510, ""],
      ["wait", "Allow it?", 520, 90_520, ""],
      ["tool", "act", 90_530, 90_730, ""],
    ]);
    const w = waterfallOf(events, 0);
    expect(w?.bars[0]).toMatchObject({ usage, ttftMs: 200, agent: "home" });
    expect(w?.bars[1]?.note).toBe("Allowed once by ana");
    expect(w?.marks).toEqual([{ at: start + 90_740, text: "home → writer" }]);
    expect([w?.from, w?.to]).toEqual([start, start + 90_800]);
  });

  test("a call has its input, also one that was denied before it began", () => {
    const w = waterfallOf([
      at(0, "turn.started"),
      at(0, "tool.requested", { call: "k", name: "act", input: { a: 1 } }),
      at(1, "tool.requested", { call: "l", name: "act", input: { a: 2 } }),
      at(10, "tool.started", { call: "k", name: "act", input: { a: 3 }, attempt: 1 }),
      at(20, "tool.ended", { call: "k", name: "act", outcome: "ok", output: "" }),
      at(30, "tool.ended", { call: "l", name: "act", outcome: "denied", output: "" }),
    ], start);
    expect(w?.bars.map((b) => [b.label, b.input])).toEqual([["act", { a: 3 }], ["act", { a: 2 }]]);
  });

  test("a failed call and its retry are two bars", () => {
    expect(
      bars([
        at(0, "turn.started"),
        at(0, "model.started", { call: "a", model: "m" }),
        at(100, "model.failed", { call: "a", error: { code: "model_error", message: "503" }, retry: true, usage }),
        at(200, "model.started", { call: "b", model: "m" }),
        at(300, "model.replied", { call: "b", model: "m", parts: [], usage }),
        at(300, "tool.started", { call: "k", name: "read", attempt: 1 }),
        at(400, "tool.started", { call: "k", name: "read", attempt: 2 }),
        at(500, "tool.ended", { call: "k", name: "read", outcome: "ok", output: "" }),
        at(510, "turn.completed", { response: {}, usage }),
      ]),
    ).toEqual([
      ["model", "m", 0, 100, "failed,retried"],
      ["model", "m", 200, 300, ""],
      ["tool", "read", 300, 400, "failed,retried"],
      ["tool", "read", 400, 500, ""],
    ]);
  });

  test("a call that was refused never ran, and is seen", () => {
    expect(bars([at(0, "turn.started"), at(50, "tool.ended", { call: "k", name: "act", outcome: "denied", output: "" })], start + 50)).toEqual([["tool", "act", 50, 50, "failed"]]);
  });

  test("a server crash ends the running bars, and the gap until it resumes is visible", () => {
    expect(
      bars(
        [
          at(0, "turn.started"),
          at(0, "tool.started", { call: "k", name: "act", attempt: 1 }),
          at(1000, "turn.interrupted", { reason: "the server stopped" }),
          at(5000, "turn.resumed", { attempt: 1 }),
          at(5000, "model.started", { call: "b", model: "m" }),
        ],
        start + 7000,
      ),
    ).toEqual([
      ["tool", "act", 0, 1000, "failed"],
      ["down", "interrupted", 1000, 5000, ""],
      ["model", "m", 5000, 7000, "open"],
    ]);
  });

  test("nothing is drawn of nothing", () => expect(waterfallOf([], 0)).toBeUndefined());

  test("every log that Go folds can be drawn", () => {
    const dir = join(import.meta.dirname, "../../../testdata/logs");
    for (const name of readdirSync(dir).filter((n) => n.endsWith(".ndjson"))) {
      const events = readFileSync(join(dir, name), "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l) as Event);
      for (const turn of new Set(events.map((e) => e.turn))) {
        const w = waterfallOf(events.filter((e) => e.turn === turn), Date.parse(events.at(-1)?.time ?? ""));
        if (!w) continue;
        const axis = axisOf(w);
        for (const b of w.bars) {
          expect(b.to, name).toBeGreaterThanOrEqual(b.from);
          expect(placeOf(axis, b.to)).toBeGreaterThanOrEqual(placeOf(axis, b.from));
          expect(placeOf(axis, b.to)).toBeLessThanOrEqual(1.0001);
        }
      }
    }
  });
});

describe("the axis", () => {
  const events = () => [
    at(0, "turn.started"),
    at(0, "model.started", { call: "a", model: "m" }),
    at(1000, "model.replied", { call: "a", model: "m", parts: [], usage }),
    at(1000, "interaction.opened", { id: "i", title: "?" }),
    at(3_601_000, "interaction.answered", { id: "i", answer: { choice: "allow" } }),
    at(3_601_000, "model.started", { call: "b", model: "m" }),
    at(3_602_000, "model.replied", { call: "b", model: "m", parts: [], usage }),
    at(3_602_000, "turn.completed", { response: {}, usage }),
  ];

  test("an hour of waiting takes little room, and is said to be squeezed", () => {
    const w = waterfallOf(events(), 0);
    if (!w) throw new Error("no waterfall");
    const axis = axisOf(w);
    expect(axis.map((s) => s.squeezed)).toEqual([false, true, false]);
    const [first, wait, last] = axis.map((s) => s.right - s.left);
    expect(first).toBeCloseTo(last as number);
    expect(wait).toBeLessThan(0.12);
    expect(axis.at(-1)?.right).toBeCloseTo(1);
    expect(placeOf(axis, start + 500)).toBeCloseTo((first as number) / 2);
  });

  test("ticks are round, ascending and outside squeezed spans", () => {
    const w = waterfallOf(events(), 0);
    if (!w) throw new Error("no waterfall");
    const ticks = ticksOf(w, axisOf(w));
    expect(ticks[0]).toEqual({ left: 0, ms: 0 });
    expect(ticks.length).toBeLessThan(10);
    for (const [i, t] of ticks.entries()) {
      if (i > 0) expect(t.left).toBeGreaterThan(ticks[i - 1]?.left ?? 0);
      expect(t.ms > 1000 && t.ms < 3_601_000).toBe(false);
      expect(t.ms % 100).toBe(0);
    }
  });

  test("labels of ticks lie neither over one another nor beyond the end", () => {
    const ticks = [0, 0.23, 0.46, 0.7, 0.93].map((left, i) => ({ left, ms: i * 1000 }));
    expect(labelled(ticks, 0.1, took).map((t) => t.label)).toEqual(["after", "after", "after", "after", "before"]);
    expect(labelled(ticks, 0.25, took).map((t) => t.label)).toEqual(["after", undefined, "after", undefined, undefined]);
    expect(labelled([{ left: 0, ms: 0 }, { left: 0.9, ms: 1000 }], 0.25, took).map((t) => t.label)).toEqual(["after", "before"]);
    expect(labelled([{ left: 0, ms: 64_500 }, { left: 0.4, ms: 65_000 }, { left: 0.8, ms: 65_500 }], 0.1, took).map((t) => t.label && t.text)).toEqual(["1 min 5 s", undefined, "1 min 6 s"]);
  });

  test("short waits keep their length", () => {
    const w = waterfallOf([at(0, "turn.started"), at(0, "model.started", { call: "a", model: "m" }), at(1000, "model.replied", { call: "a", model: "m", parts: [], usage }), at(1050, "turn.completed", { response: {}, usage })], 0);
    if (!w) throw new Error("no waterfall");
    expect(axisOf(w).some((s) => s.squeezed)).toBe(false);
  });
});
