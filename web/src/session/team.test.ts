import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { everyone, isSub, labelOf, teamOf, type Member } from "./team.ts";

const log: Event[] = readFileSync(join(import.meta.dirname, "../../../testdata/logs/sub-agents.ndjson"), "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line) as Event);

let seq = 0;
const event = (type: string, agent: string, data: unknown): Event => ({ seq: ++seq, type, agent, data, time: "2026-03-01T09:00:00Z", session: "s", turn: "t" }) as unknown as Event;
const started = (path: string, parent: string, call: string, more = {}) => event("agent.started", path, { name: "x", parent, call, title: `task of ${path}`, ...more });
const ended = (path: string, outcome: string, result = "") => event("agent.ended", path, { outcome, result });

const states = (team: readonly Member[]) => everyone(team).map((m) => `${m.path} ${m.state}`);

test("a log that Go folds too has its sub-agents with their tasks, at each of its events", () => {
  const whole = teamOf(log, false);
  expect(whole.map((m) => [m.label, m.title, m.background])).toEqual([
    ["researcher", "Notion", false],
    ["researcher #2", "Slack", true],
  ]);
  expect(everyone(whole).every((m) => m.state !== "working" && m.state !== "asks")).toBe(true);
  const asking = log.findIndex((e) => e.type === "interaction.opened");
  const then = teamOf(log.slice(0, asking + 1), true);
  expect(then.map((m) => m.state)).toEqual(["asks", "working"]);
  expect(then[0]?.questions.map((q) => q.title)).toEqual(["Allow mail?"]);
  for (let n = 0; n <= log.length; n++) expect(() => teamOf(log.slice(0, n), true)).not.toThrow();
});

test("agents stand below whoever they work for, and end with it", () => {
  const events = [
    event("agent.started", "lead", { name: "lead" }),
    started("lead/a", "lead", "k1"),
    started("lead/a/b", "lead/a", "k2"),
    started("lead/a#2", "lead", "k3", { background: true }),
    started("lead/memory", "lead", ""),
  ];
  expect(teamOf(events, true).map((m) => [m.path, m.members.map((b) => b.path)])).toEqual([
    ["lead/a", ["lead/a/b"]],
    ["lead/a#2", []],
  ]);
  const over = [...events, ended("lead/a", "error", "it cannot")];
  expect(states(teamOf(over, true))).toEqual(["lead/a failed", "lead/a/b stopped", "lead/a#2 working"]);
  expect(teamOf(over, true)[0]?.result).toBe("it cannot");
  expect(states(teamOf(over, false))).toEqual(["lead/a failed", "lead/a/b stopped", "lead/a#2 stopped"]);
});

test("each has its own calls, cost and question; calls that start agents are shown as those", () => {
  const events = [
    started("lead/a", "lead", "k1"),
    event("model.replied", "lead/a", { call: "c1", usage: { input_tokens: 10, output_tokens: 2, usd: 0.5 } }),
    event("model.failed", "lead/a", { call: "c2", usage: { input_tokens: 3, output_tokens: 0 }, error: { code: "x", message: "x" } }),
    event("tool.started", "lead/a", { call: "k5", name: "look", input: { q: "x" }, attempt: 1 }),
    event("tool.started", "lead/a", { call: "k5", name: "look", input: { q: "x" }, attempt: 2 }),
    event("tool.started", "lead/a", { call: "k6", name: "Task", input: {}, attempt: 1 }),
    started("lead/a/b", "lead/a", "k6"),
    event("tool.started", "lead", { call: "k7", name: "look", input: {}, attempt: 1 }),
    event("tool.ended", "lead/a", { call: "k5", name: "look", outcome: "ok", output: "seen" }),
    event("tool.ended", "lead/a", { call: "k8", name: "mail", outcome: "denied", output: "", error: { message: "no" } }),
    event("interaction.opened", "lead/a/b", { id: "q", title: "Allow mail?" }),
  ];
  const [a] = teamOf(events, true);
  expect(a?.calls).toEqual([
    { call: "k5", tool: "look", input: { q: "x" }, outcome: "ok", text: "seen" },
    { call: "k8", tool: "mail", input: undefined, outcome: "denied", text: "no" },
  ]);
  expect([a?.tokens, a?.usd, a?.state, a?.members[0]?.state]).toEqual([15, 0.5, "working", "asks"]);
  const answered = teamOf([...events, event("interaction.answered", "", { id: "q", answer: { choice: "allow" } })], true);
  expect(answered[0]?.members[0]?.state).toBe("working");
});

test("a turn of one agent has no team, whatever is in its log", () => {
  expect(teamOf([event("agent.started", "lead", { name: "lead" }), event("tool.started", "lead", null), { ...event("agent.started", "lead/a", {}), v: 9 }], true)).toEqual([]);
  expect([isSub("lead"), isSub("lead/a"), isSub(undefined)]).toEqual([false, true, false]);
  expect([labelOf("lead"), labelOf("lead/a#12"), labelOf(undefined)]).toEqual(["lead", "a #12", ""]);
});

test("who waits for a client asks nobody", () => {
  const log = [started("home/a", "home", "c1"), event("interaction.opened", "home/a", { id: "i1", kind: "client", title: "A client must run read" })];
  expect(states(teamOf(log, true))).toEqual(["home/a offers"]);
  const both = [...log, event("interaction.opened", "home/a", { id: "i2", kind: "permission", title: "?" })];
  expect(states(teamOf(both, true))).toEqual(["home/a asks"]);
});
