import { describe, expect, test } from "vitest";

import type { Event, Interaction, Question } from "../../api/types.gen.ts";
import {
  answersOf,
  choicesOf,
  effectsOf,
  factsOf,
  failed,
  fieldsOf,
  labelOf,
  lateNotice,
  leftOf,
  nothingPicked,
  parseInput,
  pick,
  pickOther,
} from "./logic.ts";

const ask = (i: Partial<Interaction>): Interaction => ({ id: "i", session: "s", turn: "t", kind: "permission", title: "Allow it?", opened_at: "", ...i });

test("the server's choices come before those of the kind", () => {
  expect(choicesOf(ask({ choices: ["allow", "deny"] }))).toEqual(["allow", "deny"]);
  expect(choicesOf(ask({}))).toEqual(["allow", "allow_session", "deny"]);
  expect(choicesOf(ask({ kind: "unknown" }))).toEqual(["happened", "did_not", "again", "leave"]);
  expect(labelOf({ kind: "permission" }, "something_new")).toBe("something_new");
  expect(labelOf({ kind: "question" }, "deny")).toBe("Skip");
  expect(labelOf({ kind: "question", sampling: "deep" }, "deny")).toBe("Do not allow");
});

test.each([
  ["2026-03-10T12:00:42Z", "42 s left", false, true],
  ["2026-03-10T12:04:05Z", "4:05 left", false, true],
  ["2026-03-10T12:30:00Z", "30 min left", false, false],
  ["2026-03-11T11:59:58Z", "24 h left", false, false],
  ["2026-03-17T12:00:00Z", "7 days left", false, false],
  ["2026-03-10T11:00:00Z", "the time to answer is over", true, true],
  [undefined, "", false, false],
])("leftOf(%s) is %j", (at, text, over, soon) => {
  expect(leftOf(at, Date.parse("2026-03-10T12:00:00Z"))).toEqual({ text, over, soon });
});

test("an input is read as names and values", () => {
  expect(fieldsOf({ service: "light.turn_on", target: { entity_id: ["light.a", "light.b"] }, data: {}, n: 2, on: true })).toEqual([
    { name: "service", value: "light.turn_on", block: false },
    { name: "target.entity_id", value: "light.a, light.b", block: false },
    { name: "n", value: "2", block: false },
    { name: "on", value: "true", block: false },
  ]);
  expect(fieldsOf({ script: "a\nb" })).toEqual([{ name: "script", value: "a\nb", block: true }]);
  expect(fieldsOf({ a: { b: { c: { d: 1 } } } })).toEqual([{ name: "a.b.c", value: '{"d":1}', block: false }]);
  expect(fieldsOf("plain")).toEqual([{ name: "", value: "plain", block: false }]);
  expect(fieldsOf(undefined)).toEqual([]);
});

test.each([
  ["{", /not JSON/],
  ["[1]", /an object/],
  ["null", /an object/],
  ['"x"', /an object/],
])("parseInput refuses %s", (text, why) => expect(parseInput(text)).toMatchObject({ error: expect.stringMatching(why) }));

test("parseInput takes an object", () => expect(parseInput('{"a": 1}')).toEqual({ value: { a: 1 } }));

describe("questions", () => {
  const one: Question = { question: "When?", header: "Time", options: [{ label: "Now" }, { label: "Later" }] };
  const many: Question = { question: "Where?", header: "Rooms", options: [{ label: "A" }, { label: "B" }], multi_select: true };

  test("of one with a single answer the last choice holds, be it one's own words", () => {
    let p = pick(one, nothingPicked, "Now", true);
    p = pick(one, p, "Later", true);
    expect(answersOf([one], { "When?": p })).toEqual({ "When?": "Later" });
    p = { ...pickOther(one, p, true), text: " at noon " };
    expect(answersOf([one], { "When?": p })).toEqual({ "When?": "at noon" });
    p = pick(one, p, "Now", true);
    expect(answersOf([one], { "When?": p })).toEqual({ "When?": "Now" });
  });

  test("of one with several answers they are joined in the order of the options", () => {
    let p = pick(many, nothingPicked, "B", true);
    p = pick(many, p, "A", true);
    p = { ...pickOther(many, p, true), text: "C" };
    expect(answersOf([many], { "Where?": p })).toEqual({ "Where?": "A, B, C" });
    p = pick(many, p, "A", false);
    expect(answersOf([many], { "Where?": p })).toEqual({ "Where?": "B, C" });
  });

  test("nothing is sent until each has an answer", () => {
    const p = pick(one, nothingPicked, "Now", true);
    expect(answersOf([one, many], { "When?": p })).toBeUndefined();
    expect(answersOf([many], { "Where?": { ...nothingPicked, other: true, text: "  " } })).toBeUndefined();
  });
});

test("a conflict means too late, any other error is shown at its field", () => {
  const answer = { choice: "allow" };
  const error = (code: string) => ({ code, field: "input", message: "m", hint: "h" });
  expect(failed(answer, error("conflict"))).toMatchObject({ state: "late" });
  expect(failed(answer, error("invalid"))).toMatchObject({ state: "refused", field: "input", message: "m" });
  const late = failed(answer, error("conflict"));
  expect(lateNotice(late, { interaction: ask({}), seq: 1, answer: { choice: "deny" } })).toMatch(/“Allow once”, came too late/);
  expect(lateNotice(late, { interaction: ask({}), seq: 1, expired: "x" })).toMatch(/after the time was over/);
  expect(lateNotice({ state: "sent", answer }, { interaction: ask({}), seq: 1, answer })).toBe("");
});

test("the choices about a write of unknown outcome say what they do", () => {
  expect(effectsOf(ask({ kind: "unknown", choices: ["happened", "leave"] }))).toEqual([
    { label: "It happened", effect: "The agent is told that the call took effect, and goes on." },
    { label: "Leave it", effect: "The agent is told that the outcome is unknown, and not to repeat the call." },
  ]);
  expect(effectsOf(ask({ kind: "unknown" })).map((e) => e.label)).toEqual(["It happened", "It did not", "Do it again", "Leave it"]);
  expect(effectsOf(ask({}))).toEqual([]);
});

test("a write of unknown outcome shows when it was sent and what is known", () => {
  const event = (type: string, data: unknown) => ({ session: "s", seq: 1, turn: "t", time: "2026-03-01T09:00:09Z", type, data }) as unknown as Event;
  const events = [
    event("tool.started", { call: "k", name: "add_contact", input: { name: "Uwe" }, attempt: 1, deadline: "2026-03-01T09:01:00Z" }),
    event("tool.started", { call: "other", name: "y", attempt: 1, deadline: "2026-03-01T09:01:00Z" }),
    event("tool.ended", { call: "k", outcome: "unknown", output: "", took_ms: 1500, error: { code: "timeout", message: "no reply" } }),
  ];
  const facts = factsOf(ask({ kind: "unknown", call: "k" }), events);
  expect(facts).toHaveLength(2);
  expect(facts[0]).toMatch(/^add_contact \(Uwe\) was begun at \d\d:\d\d:\d\d\.$/);
  expect(facts[1]).toMatch(/^By \d\d:\d\d:\d\d nobody could say whether it took effect: no reply\.$/);
  expect(factsOf(ask({ kind: "unknown", call: "k", text: "The outcome is unknown: no reply." }), events)[1], "what the card says already is not repeated").toMatch(/took effect\.$/);
  expect(factsOf(ask({ kind: "permission", call: "k" }), events)).toEqual([]);
});
