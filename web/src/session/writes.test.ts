import { expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { clock, clockExact } from "../ui/text.ts";
import { endedTexts, retryText, sentText, stoppingText, unsettled, writesOf } from "./writes.ts";

const at = "2026-11-01T22:51:09Z";
const until = "2026-11-01T22:52:09Z";
const log = (...list: [string, object | null][]) => list.map(([type, data], i) => ({ session: "s", seq: i + 1, turn: "t", time: at, type, data })) as unknown as Event[];
const started = (call: string, name: string, input: unknown, effect = "write"): [string, object] => ["tool.started", { call, name, input, effect, attempt: 1, deadline: until }];
const ended = (call: string, name: string, outcome: string): [string, object] => ["tool.ended", { call, name, outcome }];
const contact = started("a", "add_contact", { name: "Uwe", groups: [] });

test("the calls with effects, with what became of them", () => {
  const writes = writesOf(
    log(contact, started("b", "look", {}, "read"), started("c", "put", {}, "idempotent"), ended("c", "put", "ok"), started("d", "pay", { euros: 5 }), ended("d", "pay", "unknown"), started("e", "mail", null), ended("e", "mail", "error"), ["tool.started", null]),
  );
  expect(writes.map((w) => [w.name, w.state])).toEqual([["add_contact (Uwe)", "open"], ["put", "done"], ["pay (5)", "unknown"], ["mail", "none"]]);
  expect(unsettled(writes).map((w) => w.tool)).toEqual(["add_contact", "pay"]);
  expect(endedTexts(writes)).toEqual(["put was done.", "The outcome of a call of pay (5) is unknown: it may have taken effect. Check there before you ask again."]);
  expect(retryText(writes)).toBe("Try again: may do put, pay again");
  expect(retryText([])).toBe("Try again");
});

test.each([
  ["happened", "done"],
  ["did_not", "none"],
  ["again", "none"],
  ["leave", "unknown"],
])("a person said %s of it", (choice, state) => {
  const events = log(contact, ended("a", "add_contact", "unknown"), ["interaction.opened", { id: "i", kind: "unknown", call: "a" }], ["interaction.answered", { id: "i", answer: { choice } }]);
  expect(writesOf(events)[0]?.state).toBe(state);
});

test("a permission that was given says nothing about the outcome", () => {
  const events = log(["interaction.opened", { id: "i", kind: "permission", call: "a" }], ["interaction.answered", { id: "i", answer: { choice: "allow" } }], contact);
  expect(writesOf(events)[0]?.state).toBe("open");
});

test("a tool's own word of what its call is about comes before its input", () => {
  const events = log(["tool.started", { call: "a", name: "write_file", input: { content: "there were five", path: "harvest.txt" }, subject: "harvest.txt", effect: "write", attempt: 1, deadline: until }]);
  expect(writesOf(events)[0]?.name).toBe("write_file (harvest.txt)");
});

test("a long or hostile subject stays one short line", () => {
  const [w] = writesOf(log(started("a", "mail", { to: "ana\n\u202eevil", text: "x".repeat(5000) })));
  expect(w?.name.length).toBeLessThan(90);
  expect(w?.name).not.toMatch(/[\n\u202e]/);
});

test("the sentences name the write and the time", () => {
  const writes = writesOf(log(contact));
  expect(sentText(writes)).toBe(`add_contact (Uwe) was begun at ${clock(at)} and may have taken effect.`);
  expect(stoppingText(writes)).toBe(`Stopping: waiting for add_contact (Uwe), until ${clockExact("2026-11-01T22:52:14Z")} at the latest.`);
  expect(stoppingText([])).toBe("Stopping…");
});
