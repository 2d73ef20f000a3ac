import { expect, test } from "vitest";

import type { RewindView } from "../../api/types.gen.ts";
import { between, placeOf } from "./places.ts";

const rewinds = (...seqs: number[]) => seqs.map((seq) => ({ seq }) as RewindView);
const at = (list: RewindView[], exchanges: { seq?: number }[], all: boolean) => between(list, exchanges, all).map((p) => p.map((r) => r.seq));

test("a rewind stands where it was made", () => {
  expect(at(rewinds(25), [{ seq: 10 }, { seq: 20 }], true)).toEqual([[], [], [25]]);
  expect(at(rewinds(15, 25), [{ seq: 10 }, { seq: 20 }, { seq: 30 }, {}], true)).toEqual([[], [15], [25], [], []]);
  expect(at(rewinds(35), [{ seq: 10 }, {}], true), "before a message that is being sent").toEqual([[], [35], []]);
});

test("one before the first exchange is there only if nothing comes before that", () => {
  expect(at(rewinds(5), [{ seq: 10 }], true)).toEqual([[5], []]);
  expect(at(rewinds(5), [{ seq: 10 }], false)).toEqual([[], []]);
  expect(at(rewinds(5), [], true), "all was taken back").toEqual([[5]]);
  expect(at([], [], true)).toEqual([[]]);
});

test("the end of what a fork has copied stands behind its last exchange", () => {
  expect([placeOf(25, [{ seq: 10 }, { seq: 20 }], true), placeOf(25, [{ seq: 10 }, { seq: 30 }, {}], false), placeOf(5, [{ seq: 10 }], false)]).toEqual([2, 1, -1]);
});
