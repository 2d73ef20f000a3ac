// A lake is followed by its feed: nothing is missed, whatever fails, and a page that nobody sees asks for nothing.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { LakeFeed } from "../api/lakes.ts";
import { followLake, lookEvery, type LakeFollowing } from "./feed.ts";

let feed: LakeFollowing;
let seen: boolean;
let cursors: string[];
let told: (readonly string[])[];
let next: (() => Partial<LakeFeed> | Promise<Partial<LakeFeed>>)[];

const change = (...paths: string[]) => ({ commit: "c", cursor: "c", at: "", author: "", reason: "", changed: paths.map((path) => ({ path, what: "updated" })) });
const tick = (n = 1) => vi.advanceTimersByTimeAsync(n * lookEvery);

beforeEach(async () => {
  vi.useFakeTimers();
  [seen, cursors, told, next] = [true, [], [], []];
  feed = followLake(
    async (cursor) => {
      cursors.push(cursor);
      return { changes: [], cursor: cursor === "now" ? "1" : cursor, ...(await next.shift()?.()) };
    },
    (paths) => told.push(paths),
    () => seen,
  );
  await vi.advanceTimersByTimeAsync(0);
});
afterEach(() => {
  feed.stop();
  vi.useRealTimers();
});

test("changes are told, and once more when the index has had time", async () => {
  next = [() => ({ changes: [change("a", "b")], cursor: "2" })];
  await tick(3);
  expect(cursors).toEqual(["now", "1", "2", "2"]);
  expect(told).toEqual([["a", "b"], ["a", "b"]]);
});

test("all pages are read before it is told", async () => {
  next = [() => ({ changes: [change("a")], cursor: "2", more: true }), () => ({ changes: [change("b")], cursor: "3" })];
  await tick();
  expect([cursors, told]).toEqual([["now", "1", "2"], [["a", "b"]]]);
});

test("a history that was replaced is a change of everything", async () => {
  next = [() => ({ cursor: "9", reset: true })];
  await tick();
  expect(told).toEqual([[]]);
});

test("after a failure it goes on behind what it has read", async () => {
  next = [
    () => ({ changes: [change("a")], cursor: "2", more: true }),
    () => Promise.reject(new Error("away")),
    () => Promise.reject(new Error("away")),
    () => ({ changes: [change("b")], cursor: "3" }),
  ];
  await tick(3);
  expect(cursors).toEqual(["now", "1", "2", "2", "2"]);
  expect([...new Set(told.flat())]).toEqual(["a", "b"]);
});

test("nobody sees it: nothing is asked until it is looked at", async () => {
  seen = false;
  await tick(5);
  expect(cursors).toEqual(["now"]);
  next = [() => ({ changes: [change("a")], cursor: "2" })];
  feed.look();
  await vi.advanceTimersByTimeAsync(0);
  expect(told).toEqual([["a"]]);
});

test("a look during another is made up for, and after the end there is none", async () => {
  let answer = (_: Partial<LakeFeed>): void => undefined;
  next = [() => new Promise<Partial<LakeFeed>>((done) => (answer = done)), () => ({ changes: [change("a")], cursor: "2" })];
  feed.look();
  feed.look();
  expect(cursors).toHaveLength(2);
  answer({});
  await vi.advanceTimersByTimeAsync(0);
  expect([cursors.length, told]).toEqual([3, [["a"]]]);
  feed.stop();
  feed.look();
  await tick(3);
  expect(cursors).toHaveLength(3);
});
