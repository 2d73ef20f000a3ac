import { describe, expect, test } from "vitest";

import type { StepView, TurnView } from "../api/types.gen.ts";
import { agentName, exchangesOf, groupSteps, inOrder, isOpen, lineOf } from "./exchange.ts";

const step = (s: Partial<StepView>): StepView => ({ seq: 1, at: "", ...s }) as StepView;

describe("lineOf", () => {
  test.each<[Partial<StepView>, string]>([
    [{ type: "agent_start", agent: "scavenger" }, "▶ scavenger agent activated"],
    [{ type: "tool_call", tool: "read_notion_mock", input: { query: "login system" } }, '→ calling read_notion_mock("login system")'],
    [{ type: "tool_call", tool: "find", input: { query: "a", limit: 2 } }, '→ calling find({"query":"a","limit":2})'],
    [{ type: "tool_call", tool: "now", input: {} }, "→ calling now()"],
    [{ type: "tool_result", result: "[Notion | MVP Auth Specs] Email", outcome: "ok" }, "← result: [Notion | MVP Auth Specs] Email"],
    [{ type: "tool_result", result: "no such file", outcome: "error" }, "← error: no such file"],
    [{ type: "handoff", from: "scavenger", to: "synthesizer" }, "⇒ handing off to synthesizer"],
    [{ type: "note", text: "resumed" }, "· resumed"],
  ])("%j", (s, line) => expect(lineOf(step(s))).toBe(line));
});

test("a task that is given is named by its few words", () => {
  const step = { seq: 1, at: "", type: "tool_call" as const, agent: "lead", tool: "Task", call: "k", input: { description: "Read Slack", prompt: "Read all of it.", subagent_type: "reader" } };
  expect(lineOf(step)).toBe('→ calling Task("Read Slack")');
  expect(lineOf({ ...step, input: { prompt: "x" } })).toBe('→ calling Task("x")');
});

test("agentName takes the last instance of a path without its number", () => {
  expect(["interface", "lead/research#2", undefined].map(agentName)).toEqual(["interface", "research", ""]);
});

test("groupSteps gives a handoff to the agent that hands off, and each agent a group a time", () => {
  const steps = [
    step({ type: "agent_start", agent: "interface" }),
    step({ type: "handoff", from: "interface", to: "scavenger" }),
    step({ type: "agent_start", agent: "scavenger" }),
    step({ type: "note", text: "resumed" }),
    step({ type: "handoff", from: "scavenger", to: "interface" }),
    step({ type: "agent_start", agent: "interface" }),
  ];
  expect(groupSteps(steps).map((g) => [g.agent, g.steps.map((s) => s.type)])).toEqual([
    ["interface", ["agent_start", "handoff"]],
    ["scavenger", ["agent_start", "note", "handoff"]],
    ["interface", ["agent_start"]],
  ]);
});

test("inOrder puts calls that ran side by side as they were asked for, each with its result", () => {
  const tool = (type: "tool_call" | "tool_result", call: string, agent = "a") => step({ type, call, agent });
  const steps = [
    step({ type: "agent_start", agent: "a" }),
    tool("tool_call", "2"),
    tool("tool_call", "1"),
    tool("tool_result", "2"),
    tool("tool_result", "1"),
    step({ type: "note", text: "x" }),
    tool("tool_call", "4"),
    tool("tool_call", "3", "b"),
  ];
  expect(inOrder(steps).map((s) => s.type + (s.call ?? ""))).toEqual([
    "agent_start",
    "tool_call1",
    "tool_result1",
    "tool_call2",
    "tool_result2",
    "note",
    "tool_call4",
    "tool_call3",
  ]);
});

test("exchangesOf shows the last attempt at a question, and counts them", () => {
  const turn = (id: string, retry?: string): TurnView => ({
    id,
    status: "failed",
    seq: 1,
    origin: "user",
    message: "q",
    asked_at: "",
    ended_at: "x",
    steps: [],
    texts: [],
    models: [],
    ...(retry && { retry_of: retry }),
  });
  const turns = [turn("a"), turn("b", "a"), turn("c", "b"), turn("d")];
  const first = exchangesOf(turns, new Map());
  expect(first.map((x) => [x.id, x.attempt])).toEqual([
    ["c", 3],
    ["d", 1],
  ]);
  expect(exchangesOf(turns, new Map())[0], "an ended turn stays the same object").toBe(first[0]);
});

test("an interrupted turn that goes on by itself is open, and one that does not is not", () => {
  const turn = { id: "t", status: "interrupted", message: "q", asked_at: "", steps: [], texts: [], models: [] } as unknown as TurnView;
  const shown = exchangesOf([turn, { ...turn, id: "u", resumes: true }], new Map());
  expect(shown.map((x) => [x.standing, isOpen(x.standing)])).toEqual([
    ["interrupted", false],
    ["resuming", true],
  ]);
});

test("an exchange says why its answer is doubtful", () => {
  const turn = { id: "t", status: "completed", message: "q", asked_at: "", ended_at: "x", steps: [], texts: [], models: [], answer: "a" } as unknown as TurnView;
  const doubtful = { ...turn, id: "u", warning: "the server counted far fewer tokens" };
  expect(exchangesOf([turn, doubtful], new Map()).map((x) => x.warning)).toEqual([undefined, "the server counted far fewer tokens"]);
});
