import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { clockExact } from "../ui/text.ts";
import { artifactsOf, stepsOf } from "./steps.ts";

const event = (type: string, data: unknown, seq = 1): Event =>
  ({ session: "s", seq, turn: "t", agent: "home", time: "2026-03-01T10:00:00Z", type, data }) as unknown as Event;
/** The same local time in every time zone. */
const evening = new Date(2026, 2, 1, 21, 3, 20).toISOString();
const text = (t: string) => ({ type: "text", text: t });
const call = { type: "tool_call", call: "k", name: "look", input: {} };

test.each<[string, Event, [string, string] | undefined]>([
  ["text before calls is the plan", event("model.replied", { call: "c", parts: [text("First the meter."), call] }), ["plan", "First the meter."]],
  ["text alone is the answer", event("model.replied", { call: "c", parts: [text("It was the meter.")] }), undefined],
  ["end notes are not for people", event("model.replied", { call: "c", parts: [text('Go.\n```parley\n{"follow_ups":[]}\n```'), call] }), ["plan", "Go."]],
  ["a call without words has no plan", event("model.replied", { call: "c", parts: [call] }), undefined],
  ["an attempt is counted", event("tool.started", { call: "k", name: "look", input: { a: 1 }, attempt: 2 }), ["tool_call", "attempt 2"]],
  ["a good result says nothing about itself", event("tool.ended", { call: "k", name: "look", outcome: "ok", output: "42" }), ["tool_result", ""]],
  ["a call that was asked about goes on with its answer", event("tool.started", { call: "k", name: "AskUserQuestion", input: {}, attempt: 2 }), undefined],
  ["a denied one says why", event("tool.ended", { call: "k", name: "look", outcome: "denied", output: "not after 22:00" }), ["tool_result", "denied: not after 22:00"]],
  ["a bad one without a word says that it is", event("tool.ended", { call: "k", name: "look", outcome: "unknown", output: "unknown" }), ["tool_result", "unknown"]],
  ["a bad one says why", event("tool.ended", { call: "k", name: "look", outcome: "error", output: "", error: { code: "timeout", message: "too slow" } }), ["tool_result", "too slow"]],
  ["snippets are a retrieval", event("context.retrieved", { snippets: [{ source: "index", ref: "light.a", text: "on" }] }), ["retrieval", "1 found:"]],
  ["nothing found is no step", event("context.retrieved", { snippets: [] }), undefined],
  ["summing up is a step, pinning is not", event("memory.updated", { dropped: 3, summary: "x" }), ["summary", "earlier turns were summed up"]],
  ["pins are none", event("memory.updated", { pins: [] }), undefined],
  ["a failed call of the model", event("model.failed", { call: "c", error: { code: "model_error", message: "no" }, retry: true }), ["error", "the model call failed and is tried again: no"]],
  ["what is asked", event("interaction.opened", { id: "i", title: "Allow it?" }), ["ask", "Allow it?"]],
  ["what is answered", event("interaction.answered", { id: "i", answer: { choice: "deny" }, by: "ana" }), ["answer", "Denied by ana"]],
  ["a handoff with its reason", event("agent.handoff", { from: "a", to: "lead/b#2", name: "b", why: "it knows" }), ["handoff", "to b: it knows"]],
  ["what the house did", event("context.observed", { source: "homeassistant", ref: "light.a", text: "off → on", at: evening }), ["observed_event", "light.a off → on at 21:03"]],
  ["a report that came too late", event("context.observed", { source: "client", ref: "01M8", text: "The client that had claimed mail reported after the deadline: ok", at: evening }), ["observed_event", "The client that had claimed mail reported after the deadline: ok at 21:03"]],
  ["what a later kind of event saw", event("moon.observed", { phase: "full" }), ["observed_event", "moon"]],
  ["a model that takes the place of another", event("context.transferred", { from: "a/b", to: "c/d", text: "what was said" }), ["summary", "c/d goes on in place of a/b:"]],
  ["a fallback whose first model is not known", event("model.failed", { call: "c", error: { code: "unavailable", message: "overloaded" }, retry: true, fallback: "c/d" }), ["error", "the model did not answer (overloaded); c/d goes on"]],
  ["a hook that lets a call pass is none", event("hook.ran", { event: "PreToolUse", name: "guard", decision: "allow" }), undefined],
  ["a hook that denies says why", event("hook.ran", { event: "PreToolUse", name: "guard", decision: "deny", reason: "not here" }), ["note", "the hook guard denied it: not here"]],
  ["a hook that blocks a message", event("hook.ran", { event: "UserPromptSubmit", name: "guard", from: "app", decision: "deny", reason: "no names" }), ["note", "the hook guard blocked the message: no names"]],
  ["a hook that changes the input", event("hook.ran", { event: "PreToolUse", name: "guard", from: "app", input: { a: 1 } }), ["note", "the hook guard changed the input"]],
  ["a hook that tells the model more", event("hook.ran", { event: "PostToolUse", name: "guard", from: "app", context: "x" }), ["note", "the hook guard told the model something about it"]],
  ["a hook that speaks to people", event("hook.ran", { event: "PreToolUse", name: "guard", from: "app", message: "hello" }), ["note", "the hook guard says: hello"]],
  ["a hook that fails", event("hook.ran", { event: "PreToolUse", name: "guard", error: { code: "tool_error", message: "exit 1" } }), ["error", "the hook guard failed: exit 1"]],
  ["files that changed", event("files.saved", { files: [{ path: "a.md" }, { path: "b.md" }] }), ["change", ""]],
  ["what a runtime notes", event("runtime.noted", { kind: "restarted", text: "it was started again" }), ["note", "it was started again"]],
  ["what a runtime keeps is none", event("runtime.kept", { runtime: "cli", sha256: "d" }), undefined],
  ["another kind of event", event("moon.rose", {}), undefined],
])("%s", (_, e, want) => {
  const [step] = stepsOf([e]);
  expect(step && [step.kind, step.text]).toEqual(want);
});

test("a question to the user is read in words", () => {
  const questions = [{ question: "Which one?", header: "Which", options: [{ label: "Left" }, { label: "Right" }] }];
  const steps = stepsOf([
    event("tool.started", { call: "k", name: "AskUserQuestion", input: { questions }, attempt: 1 }, 1),
    event("interaction.answered", { id: "i", answer: { choice: "answered", answers: { "Which one?": "Left, Right" } }, by: "ana" }, 2),
    event("tool.ended", { call: "k", name: "AskUserQuestion", outcome: "ok", output: JSON.stringify({ questions, answers: { "Which one?": "Left, Right" } }) }, 3),
    event("tool.ended", { call: "k", name: "AskUserQuestion", outcome: "ok", output: '{"questions": [' }, 4),
  ]);
  expect(steps.map((s) => s.input ?? s.detail ?? s.text)).toEqual([{ questions: "Which one?" }, "Answered by ana: Left, Right", "Left, Right", '{"questions": [']);
});

test("a resumed turn says which write it waits for", () => {
  const started = (call: string, effect: string, deadline: string) => event("tool.started", { call, name: call, effect, deadline, input: call === "mail" ? { to: "ana" } : {}, attempt: 1 });
  const events = [
    started("mail", "write", "2026-03-01T10:01:00Z"),
    started("look", "read", "2026-03-01T10:01:00Z"),
    started("old", "write", "2026-03-01T09:59:00Z"),
    started("done", "write", "2026-03-01T10:01:00Z"),
    event("tool.ended", { call: "done", name: "done", outcome: "ok", output: "" }),
    event("turn.resumed", { attempt: 1 }),
  ];
  const steps = stepsOf(events);
  expect(steps.at(-1)?.text).toBe(`resumed; what became of mail (ana) is being found out, which may take until shortly after ${clockExact("2026-03-01T10:01:00Z")}`);
  // Of a Go tool it is known at once, and then nothing more is awaited.
  const known = stepsOf([...events, event("tool.ended", { call: "mail", name: "mail", outcome: "unknown", output: "" })]);
  expect(known.find((s) => s.text.startsWith("resumed"))?.text).toBe("resumed");
});

test("a repeated statement is shown once", () => {
  const [step] = stepsOf([event("tool.ended", { call: "k", name: "look", outcome: "error", output: "no such thing", error: { code: "tool_error", message: "no such thing" } })]);
  expect(step).toMatchObject({ text: "no such thing" });
  expect(step).not.toHaveProperty("detail");
});

test("a fallback names both models, and why", () => {
  const [step] = stepsOf([
    event("model.started", { call: "c", model: "a/b" }),
    event("model.failed", { call: "c", error: { code: "unavailable", message: "overloaded" }, retry: true, fallback: "c/d" }, 2),
  ]);
  expect(step).toMatchObject({ seq: 2, kind: "error", text: "a/b did not answer (overloaded); c/d goes on" });
});

test("a step carries what a reader may open", () => {
  expect(stepsOf([event("tool.ended", { call: "k", name: "look", outcome: "ok", output: "42 lines", took_ms: 12 }, 7)])).toEqual([
    { seq: 7, at: "2026-03-01T10:00:00Z", agent: "home", kind: "tool_result", text: "", tool: "look", call: "k", outcome: "ok", tookMs: 12, detail: "42 lines" },
  ]);
});

test("a result that is only a string is shown as text", () => {
  const [step] = stepsOf([event("tool.ended", { call: "k", name: "look", outcome: "ok", output: '"42 lines\\nof text"' })]);
  expect(step?.detail).toBe("42 lines\nof text");
});

test("artifacts are found where they are stored and where a result points to them, each once", () => {
  const a = { id: "A", name: "plot.png", media_type: "image/png", size: 1, sha256: "x" };
  const b = { ...a, id: "B" };
  expect(artifactsOf([event("artifact.stored", { ...a, call: "k" }), event("tool.ended", { call: "k", outcome: "ok", output: "", artifact: a }), event("tool.ended", { call: "l", outcome: "ok", output: "", artifact: b })]).map((x) => x.id)).toEqual(["A", "B"]);
});

test("of a large image and the small one that a model was shown, people get the large one", () => {
  const of = (...names: string[]) => artifactsOf(names.map((name) => event("artifact.stored", { id: name, name, media_type: "image/png", size: 1, sha256: name }))).map((a) => a.name);
  expect(of("a.png", "a-shown.jpeg", "b-shown.png", "c.tiff", "c-shown.png")).toEqual(["a.png", "b-shown.png", "c.tiff"]);
});

test("every log that Go folds can be read", () => {
  const dir = join(import.meta.dirname, "../../../testdata/logs");
  for (const name of readdirSync(dir).filter((n) => n.endsWith(".ndjson"))) {
    const events = readFileSync(join(dir, name), "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l) as Event);
    for (const s of stepsOf(events)) expect(s).toMatchObject({ seq: expect.any(Number), text: expect.any(String) });
  }
});
