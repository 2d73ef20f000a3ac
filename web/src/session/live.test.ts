import { readdirSync, readFileSync } from "node:fs";

import { describe, expect, test } from "vitest";

import type { SessionWindow } from "../api/client.ts";
import type { Frame } from "../api/stream.ts";
import type { Delta, Event, SessionInfo } from "../api/types.gen.ts";
import { exchangesOf } from "./exchange.ts";
import { advance, beginAt, fill, nothing, precede, type SessionView } from "./live.ts";
import { stepsOf } from "./steps.ts";
import { teamOf } from "./team.ts";
import { waterfallOf } from "./waterfall.ts";
import { writesOf } from "./writes.ts";

const event = (seq: number, type: string, data: unknown, agent = "interface"): Frame => ({
  kind: "event",
  event: { session: "s", seq, turn: "t", agent, time: "2026-03-01T10:00:00Z", type, data } as unknown as Event,
});
const delta = (kind: "delta" | "partial", n: number, text: string, more: Partial<Delta> = {}): Frame => ({
  kind,
  delta: { session: "s", turn: "t", agent: "interface", call: "c", n, text, ...more },
});
const usage = { input_tokens: 1, output_tokens: 1 };
const message = { role: "user", parts: [{ type: "text", text: "hello?" }] };

const begun: Frame[] = [
  event(1, "turn.started", { origin: "user", message, budgets: {}, app: "" }),
  event(2, "agent.started", { name: "interface" }),
  event(3, "model.started", { call: "c", model: "m", context: "", reserved: usage }),
];
const replied = event(4, "model.replied", { call: "c", model: "m", parts: [{ type: "text", text: "Hello there." }], usage });
const completed = event(5, "turn.completed", { response: { message: "Hello there." }, usage });

const shown = (v: SessionView) => exchangesOf(v.transcript.turns, v.live).map((x) => [x.standing, x.answer]);

describe("advance", () => {
  test("fragments grow the answer until its call's event says what it was", () => {
    let v = advance(nothing, begun);
    expect(shown(v)).toEqual([["running", ""]]);
    v = advance(v, [delta("delta", 1, "Hel"), delta("delta", 3, "lo")]);
    expect(shown(v)).toEqual([["running", "Hello"]]);
    v = advance(v, [replied]);
    expect(shown(v)).toEqual([["running", "Hello there."]]);
    expect(v.live.size).toBe(0);
    v = advance(v, [completed]);
    expect(shown(v)).toEqual([["completed", "Hello there."]]);
  });

  test("a partial replaces, and fragments that it holds already do not come twice", () => {
    let v = advance(nothing, [...begun, delta("delta", 1, "Hx")]);
    v = advance(v, [delta("partial", 4, "Hello"), delta("delta", 3, "lo"), delta("delta", 5, " th")]);
    expect(shown(v)).toEqual([["running", "Hello th"]]);
  });

  test("without any fragment the end is the same", () => {
    const all = [...begun, delta("delta", 1, "Hello"), delta("delta", 2, " there."), replied, completed];
    const without = all.filter((f) => f.kind === "event");
    expect(advance(nothing, all)).toEqual(advance(nothing, without));
  });

  test("thinking and the text of other agents are not the answer", () => {
    const v = advance(nothing, [
      ...begun,
      delta("delta", 1, "hm", { kind: "thinking" }),
      event(4, "model.started", { call: "d", model: "m", context: "", reserved: usage }, "scavenger"),
      delta("delta", 1, "raw", { call: "d", agent: "scavenger" }),
    ]);
    expect(shown(v)).toEqual([["running", ""]]);
  });

  test("what a tool reported last is shown until its call ends", () => {
    const progressOf = (v: SessionView) => exchangesOf(v.transcript.turns, v.live).map((x) => [...(x.progress ?? [])]);
    const tool = { call: "k", kind: "progress" } as const;
    let v = advance(nothing, [...begun, event(4, "tool.started", { call: "k", name: "look", effect: "read", input: {}, attempt: 1, deadline: "" })]);
    v = advance(v, [delta("delta", 1, "page 1", tool), delta("delta", 2, "\npage 2", tool)]);
    expect(progressOf(v)).toEqual([[["k", "page 2"]]]);
    expect(shown(v)).toEqual([["running", ""]]);
    v = advance(v, [delta("partial", 2, "page 1\npage 2", tool), delta("partial", 5, "page 1\npage 2\npage 3", tool)]);
    expect(progressOf(v)).toEqual([[["k", "page 3"]]]);
    v = advance(v, [event(5, "tool.ended", { call: "k", name: "look", outcome: "ok", output: "" })]);
    expect(progressOf(v)).toEqual([[]]);
    expect(v.live.size).toBe(0);
  });

  test("a turn that ends takes its text in flight with it", () => {
    const v = advance(nothing, [...begun, delta("delta", 1, "Hel"), event(4, "turn.cancelled", { usage, response: { message: "Hel" } })]);
    expect(v.live.size).toBe(0);
    expect(shown(v)).toEqual([["cancelled", "Hel"]]);
  });
});

describe("a log that is read from its last turns on", () => {
  const recorded = readdirSync("../testdata/logs").filter((n) => n.endsWith(".ndjson"));
  const eventsIn = (name: string) => readFileSync(`../testdata/logs/${name}`, "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l) as Event);
  const whole = (events: Event[]) => advance(nothing, events.map((event) => ({ kind: "event", event })));
  const info = { id: "s", app: "a", user: "u", title: "T", status: "active" } as SessionInfo;
  const at = (after: number): SessionWindow => ({ session: info, after, turns: 1, more: true, mode: "plan", max_open_turns: 3, pins: [], rules: [] });

  test("begins with the session's settings, and follows changes", () => {
    const view = beginAt(at(41));
    expect([view.from, view.transcript.seq, view.transcript.title, view.records.mode, view.records.maxOpenTurns]).toEqual([41, 41, "T", "plan", 3]);
    const later = advance(view, [event(42, "session.updated", { mode: "default", title: "New" }, "")]);
    expect([later.transcript.title, later.records.mode]).toEqual(["New", "default"]);
    expect(beginAt(at(0))).toBe(nothing);
  });

  test.each(recorded)("and then from its beginning is what it is when it is read at once: %s", (name) => {
    const all = eventsIn(name);
    const starts = all.filter((e) => e.type === "turn.started").map((e) => e.seq - 1);
    for (const after of starts) {
      if (after === 0) continue;
      const view = advance(beginAt(at(after)), all.filter((e) => e.seq > after).map((event) => ({ kind: "event", event })));
      const joined = precede(view, { after: 0, more: false }, all.filter((e) => e.seq <= after));
      const want = whole(all);
      expect(joined.from).toBe(0);
      expect(joined.transcript.turns?.map((t) => [t.id, t.status, t.answer, t.steps?.length])).toEqual(want.transcript.turns?.map((t) => [t.id, t.status, t.answer, t.steps?.length]));
      expect([...joined.records.events]).toEqual([...want.records.events]);
    }
  });

  // A window that begins within a turn, as the server makes it.
  test.each(recorded)("and when that is within a turn, its first steps can be read in any pieces: %s", (name) => {
    const all = eventsIn(name);
    const want = whole(all);
    for (const turn of want.transcript.turns ?? []) {
      const of = all.filter((e) => e.turn === turn.id);
      const started = of.findIndex((e) => e.type === "turn.started");
      if (started < 0) continue;
      for (const { seq: after } of of.slice(started, -1)) {
        const start = of[started] as Event;
        const agent = of.find((e) => e.type === "agent.started" && e.seq <= after);
        const asked = of.filter((e) => e.type === "interaction.opened" && e.seq <= after && !of.some((c) => c.seq > e.seq && /^(interaction\.(answered|expired)|turn\.(completed|failed|cancelled|expired))$/.test(c.type)));
        const begun = [start, ...(agent ? [agent] : []), ...asked];
        const others = new Set(all.filter((e) => e.turn && e.turn !== turn.id && e.seq <= after && all.some((l) => l.turn === e.turn && l.seq > after)).map((e) => e.turn));
        if (others.size > 0) continue; // several are cut; the server's test has that
        const window = { ...at(after), begun };
        let view = advance(beginAt(window), all.filter((e) => e.seq > after).map((event) => ({ kind: "event", event })));
        const shown = view.transcript.turns?.find((t) => t.id === turn.id);
        expect([shown?.message, shown?.status, shown?.entry], `cut at ${after}`).toEqual([turn.message, turn.status, turn.entry]);
        expect(view.records.cut.has(turn.id)).toBe(true);
        const some = view.records.events.get(turn.id) ?? [];
        for (const make of [() => stepsOf(some), () => teamOf(some, true), () => waterfallOf(some, 0), () => writesOf(some)]) expect(make).not.toThrow();
        for (const piece of [1, 3]) {
          let filled = view;
          for (let hole = filled.holes[0]; hole; hole = filled.holes[0]) {
            const to = hole.to;
            const from = Math.max(hole.after, to - piece);
            filled = fill(filled, hole, from, all.filter((e) => e.seq > from && e.seq <= to));
          }
          expect(filled.transcript.turns?.find((t) => t.id === turn.id), `cut at ${after}, in pieces of ${piece}`).toEqual({ ...turn, seq: start.seq, asked_at: start.time }); // when it was queued is read with what came before
          expect(filled.records.cut.size).toBe(0);
          expect(filled.records.asked.get(turn.id)).toEqual(want.records.asked.get(turn.id));
        }
        view = precede(view, { after: 0, more: false }, all.filter((e) => e.seq < start.seq));
        const hole = view.holes[0];
        if (hole) view = fill(view, hole, hole.after, all.filter((e) => e.seq > hole.after && e.seq <= hole.to));
        expect(view.transcript.turns?.map((t) => [t.id, t.status, t.rewound]), `cut at ${after}`).toEqual(want.transcript.turns?.map((t) => [t.id, t.status, t.rewound]));
        expect(view.transcript.turns?.find((t) => t.id === turn.id)).toEqual(turn);
        expect(view.records.events.get(turn.id)).toEqual(want.records.events.get(turn.id));
      }
    }
  });

  test("and what came before the first turn, such as a conversation from elsewhere, can be read, too", () => {
    const begun = [{ ...(event(5, "turn.started", { origin: "user", message: { role: "user", parts: [] }, budgets: {}, by: "ana" }) as { event: Event }).event }];
    const window = { ...at(300), more: false, begun };
    const view = beginAt(window);
    expect([view.from, view.holes.map((h) => [h.after, h.to])]).toEqual([4, [[4, 300]]]);
    expect(beginAt({ ...window, begun: [{ ...begun[0]!, seq: 2 }] }).from, "only the beginning of the session is before").toBe(0);
  });

  // Both logs that are cut have the same turns taken back as the whole one, wherever they are cut.
  test("marks what later rewinds have taken back", () => {
    const log = eventsIn("rewound.ndjson");
    const marks = (v: SessionView) => [v.transcript.turns?.map((t) => [t.id, t.rewound]), v.transcript.rewinds];
    for (let end = 8; end <= log.length; end++) {
      const all = log.slice(0, end);
      const want = advance(nothing, all.map((event) => ({ kind: "event", event })));
      for (const after of [6, 11, 13, 18]) {
        if (after >= end) continue;
        const late: SessionView = { ...nothing, from: after, transcript: { ...nothing.transcript, seq: after } };
        const view = advance(late, all.filter((e) => e.seq > after).map((event) => ({ kind: "event", event })));
        expect(marks(precede(view, { after: 0, more: false }, all.filter((e) => e.seq <= after))), `the first ${end}, cut at ${after}`).toEqual(marks(want));
      }
    }
  });
});
