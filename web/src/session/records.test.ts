import { describe, expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { isWaiting, noRecords, record, type Records } from "./records.ts";

let seq = 0;
const event = (type: string, data: unknown, turn = "t"): Event =>
  ({ session: "s", seq: ++seq, time: `2026-03-01T10:00:${String(seq).padStart(2, "0")}Z`, type, data, ...(turn && { turn }) }) as unknown as Event;
const fold = (...events: Event[]): Records => record(noRecords, events);
const ask = (id: string) => event("interaction.opened", { id, session: "s", turn: "t", kind: "permission", title: `Allow ${id}?`, opened_at: "" });
const outcomes = (r: Records) => (r.asked.get("t") ?? []).map((a) => [a.interaction.id, a.answer?.choice ?? a.expired ?? "waits", a.by]);

describe("record", () => {
  test("the first answer holds, with the person's name", () => {
    seq = 0;
    const r = fold(
      ask("a"),
      ask("b"),
      event("interaction.answered", { id: "a", answer: { choice: "allow" }, by: "ana", client: "mcp" }),
      event("interaction.answered", { id: "a", answer: { choice: "deny" }, by: "bo" }),
    );
    expect(outcomes(r)).toEqual([
      ["a", "allow", "ana"],
      ["b", "waits", undefined],
    ]);
    expect(r.asked.get("t")?.[0]).toMatchObject({ client: "mcp", closedAt: "2026-03-01T10:00:03Z" });
  });

  test("one that expires says why, and a turn that ends takes the rest with it", () => {
    seq = 0;
    const r = fold(ask("a"), ask("b"), event("interaction.expired", { id: "a" }), event("turn.cancelled", { usage: {} }));
    expect(outcomes(r)).toEqual([
      ["a", "nobody answered in time", undefined],
      ["b", "the turn ended", undefined],
    ]);
    expect(r.asked.get("t")?.some(isWaiting)).toBe(false);
  });

  test("what calls of one reply ask at once is in the order of the calls", () => {
    seq = 0;
    const offer = (id: string, call: string, more: object = {}) => event("interaction.opened", { id, session: "s", turn: "t", agent: "lead", kind: "client", call, title: "", opened_at: "", ...more });
    const order = (...events: Event[]) => outcomes(fold(...events)).map(([id]) => id);
    expect(order(offer("c", "03"), offer("a", "01"), offer("b", "02"))).toEqual(["a", "b", "c"]);
    expect(order(offer("c", "03", { kind: "permission" }), offer("a", "01")), "they ask different things").toEqual(["c", "a"]);
    expect(order(offer("c", "03", { agent: "lead/other" }), offer("a", "01")), "they are of different agents").toEqual(["c", "a"]);
    expect(order(offer("c", "03"), event("interaction.answered", { id: "c", answer: { choice: "deny" } }), offer("a", "01")), "the one was answered before the other was asked").toEqual(["c", "a"]);
    expect(order(ask("b"), ask("a")), "about no calls").toEqual(["b", "a"]);
  });

  test("the session is as it was set last", () => {
    seq = 0;
    const made = event("session.created", { app: "home", user: "ana", mode: "plan" }, "");
    const pins = [{ label: "a", text: "b" }];
    const r = fold(made, event("session.updated", { title: "x" }, ""), event("memory.updated", { pins }, ""), event("session.updated", { rules: [{ verdict: "allow", tool: "x" }] }, ""));
    expect(r).toMatchObject({ user: "ana", mode: "plan", pins, rules: [{ verdict: "allow", tool: "x" }] });
    const on = record(r, [event("session.updated", { mode: "bypassPermissions" }, ""), event("session.forked", { parent: "p", at: 1 }, "")]);
    expect(on).toMatchObject({ mode: "bypassPermissions", pins, rules: [], parent: "p", readOnly: false });
  });

  test("a session knows where it got another runtime, also in a window that is read from its middle", () => {
    seq = 0;
    const move = (runtime: string) => event("session.updated", { runtime }, "");
    const events = [event("session.created", { app: "home", user: "ana" }, ""), move("claude"), event("session.updated", { title: "x" }, ""), move("")];
    const moves = [{ seq: 2, runtime: "claude" }, { seq: 4, runtime: "" }];
    expect(fold(...events)).toMatchObject({ runtime: "", moves });
    expect(record({ ...noRecords, seq: 1, runtime: "" }, events).moves).toEqual(moves);
  });

  test("a fork reads the folder of its parent, unless it names one", () => {
    const of = (created: object, forked: object) => {
      seq = 0;
      const { workspace, readOnly, parent, forkedAt } = fold(event("session.created", { app: "home", user: "ana", ...created }, ""), event("session.forked", { parent: "p", at: 1, ...forked }, ""));
      return [workspace, readOnly, parent, forkedAt];
    };
    expect(of({ workspace: "lake" }, {})).toEqual(["lake", true, "p", 2]);
    expect(of({ workspace: "lake" }, { workspace: "lake" })).toEqual(["lake", false, "p", 2]);
    expect(of({ workspace: "lake" }, { workspace: "shared/rules", read_only: true })).toEqual(["shared/rules", true, "p", 2]);
    expect(of({}, {})).toEqual(["", false, "p", 2]);
    seq = 0;
    expect(fold(event("session.created", { app: "home", user: "ana", workspace: "shared/rules", read_only: true }, ""))).toMatchObject({ readOnly: true, parent: "" });
  });

  test("any batches give the same, repeated events change nothing, and the input is not modified", () => {
    seq = 0;
    const events = [
      event("session.created", { app: "home", user: "ana" }, ""),
      event("turn.started", {}),
      ask("a"),
      event("interaction.answered", { id: "a", answer: { choice: "allow" }, by: "ana" }),
      event("turn.started", {}, "u"),
      event("memory.updated", { pins: [] }, "u"),
      event("turn.completed", {}, "u"),
    ];
    const whole = record(noRecords, events);
    for (let cut = 0; cut <= events.length; cut++) {
      const first = record(noRecords, events.slice(0, cut));
      const before = JSON.stringify([...first.events]) + JSON.stringify([...first.asked]);
      expect(record(first, events.slice(cut))).toEqual(whole);
      expect(JSON.stringify([...first.events]) + JSON.stringify([...first.asked])).toBe(before);
    }
    expect(record(whole, events)).toBe(whole);
    expect(whole.events.get("u")?.map((e) => e.type)).toEqual(["turn.started", "memory.updated", "turn.completed"]);
  });

  test("what a client said too late is in the question about its call, and in no other", () => {
    seq = 0;
    const open = (id: string, kind: string, call: string): Event => event("interaction.opened", { id, kind, call, title: "?", text: "Sent." });
    const list = [open("a", "unknown", "c"), open("b", "unknown", "d"), open("e", "permission", "c")];
    const r = fold(...list, event("context.observed", { source: "client", ref: "c", text: "It said ok", at: "" }), event("context.observed", { source: "house", ref: "d", text: "off", at: "" }));
    expect(r.asked.get("t")?.map((a) => a.interaction.text)).toEqual(["Sent.\nIt said ok", "Sent.", "Sent."]);
  });

  test("a turn that an event does not concern keeps its lists", () => {
    seq = 0;
    const r = fold(ask("a"));
    const next = record(r, [event("turn.started", {}, "u")]);
    expect(next.asked).toBe(r.asked);
    expect(next.events.get("t")).toBe(r.events.get("t"));
  });

  test("events that are newer than this page, or condensed, are only counted", () => {
    seq = 0;
    const r = fold({ ...ask("a"), v: 1 } as Event, { ...ask("b"), data: null } as unknown as Event);
    expect(r.asked.size).toBe(0);
    expect(r.seq).toBe(2);
  });
});
