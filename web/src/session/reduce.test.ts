import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import type { Event, Transcript } from "../api/types.gen.ts";
import { empty, reduce, reduceAll } from "./reduce.ts";

// The logs that Go folds too, with its results (transcript_test.go).
const dir = join(import.meta.dirname, "../../../testdata/logs");
const logs = readdirSync(dir).filter((name) => name.endsWith(".ndjson"));

const eventsOf = (name: string): Event[] =>
  readFileSync(join(dir, name), "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Event);

const foldOf = (name: string): unknown => JSON.parse(readFileSync(join(dir, name.replace(/\.ndjson$/, ".transcript.json")), "utf8"));

describe("reduce", () => {
  test("there are logs to compare with", () => expect(logs).not.toEqual([]));

  describe.each(logs)("%s", (name) => {
    const events = eventsOf(name);

    test("gives the same as Go", () => {
      expect(reduceAll(empty, events)).toEqual(foldOf(name));
    });

    test("gives the same in any batches, and does not modify its input", () => {
      const steps: string[] = [];
      const states: Transcript[] = [];
      let state = empty;
      for (const e of events) {
        state = reduce(state, e);
        states.push(state);
        steps.push(JSON.stringify(state));
      }
      expect(states.map((s) => JSON.stringify(s))).toEqual(steps);
      for (let cut = 0; cut <= events.length; cut++) {
        expect(reduceAll(reduceAll(empty, events.slice(0, cut)), events.slice(cut))).toEqual(state);
      }
    });

    test("changes nothing when events come again", () => {
      const state = reduceAll(empty, events);
      expect(reduceAll(state, events)).toBe(state);
    });

    test("keeps the turns that an event does not concern", () => {
      let state = empty;
      for (const e of events) {
        const next = reduce(state, e);
        for (const t of state.turns ?? []) {
          const back = next.turns?.find((n) => n.id === t.id)?.rewound !== t.rewound;
          if (t.id !== e.turn && !back) expect(next.turns?.includes(t)).toBe(true);
        }
        state = next;
      }
    });
  });

  test("an event of a kind it does not know only counts", () => {
    const known = reduce(empty, { session: "s", seq: 1, time: "t", type: "session.created", data: { app: "chaos", title: "x" } } as Event);
    const next = reduce(known, { session: "s", seq: 2, time: "t", type: "moon.rose", data: {} } as unknown as Event);
    expect(next).toEqual({ ...known, seq: 2 });
    expect(reduce(next, { session: "s", seq: 3, time: "t", type: "session.updated", v: 1, data: { title: "y" } } as unknown as Event)).toEqual({
      ...known,
      seq: 3,
    });
  });
});
