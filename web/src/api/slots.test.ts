import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Slots, type Shelf } from "./slots.ts";

/** The storage that the tabs of a browser share. */
function shelf(): Shelf & { kept: Map<string, string> } {
  const kept = new Map<string, string>();
  return { kept, getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => void kept.set(k, v), removeItem: (k) => void kept.delete(k) };
}

const never = () => expect.unreachable("the slot was lost");

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("all tabs together have four, and a released one is free at once", () => {
  const shared = shelf();
  const [one, two] = [new Slots(shared), new Slots(shared)];
  const held = [one.take("session", never), two.take("session", never), two.take("session", never)];
  expect(one.take("session", never)).toBeUndefined();
  expect(one.take("house", never)).toBeDefined();
  expect(two.take("house", never)).toBeUndefined();
  held[0]?.();
  expect(two.take("session", never)).toBeDefined();
  held[0]?.(); // takes nothing from the new holder
  expect(one.take("session", never)).toBeUndefined();
  two.close();
  expect([one.take("session", never), one.take("session", never), one.take("session", never)]).not.toContain(undefined);
});

test("a slot is kept as long as its tab lives, and not much longer", async () => {
  const shared = shelf();
  const alive = new Slots(shared);
  alive.take("house", never);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(new Slots(shared).take("house", never)).toBeUndefined();
  vi.clearAllTimers(); // the tab crashes
  await vi.advanceTimersByTimeAsync(11_000);
  expect(new Slots(shared).take("house", never)).toBeDefined();
});

test("of two that took the same slot, one keeps it", async () => {
  const shared = shelf();
  const lost: string[] = [];
  new Slots(shared).take("house", () => lost.push("one"));
  shared.kept.clear(); // the other has not seen it
  new Slots(shared).take("house", () => lost.push("two"));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(lost).toEqual(["one"]);
});

test("after a sleep, the own slot is renewed, unless somebody took it", async () => {
  const shared = shelf();
  const lost: string[] = [];
  new Slots(shared).take("house", () => lost.push("one"));
  vi.setSystemTime(Date.now() + 3_600_000);
  await vi.advanceTimersByTimeAsync(2000);
  expect(lost).toEqual([]);
  vi.setSystemTime(Date.now() + 3_600_000);
  expect(new Slots(shared).take("house", never)).toBeDefined();
  await vi.advanceTimersByTimeAsync(2000);
  expect(lost).toEqual(["one"]);
});

test("a clock that is set back blocks no slot", () => {
  const shared = shelf();
  shared.kept.set("parley.slot.house.0", `x ${Date.now() + 86_400_000}`);
  expect(new Slots(shared).take("house", never)).toBeDefined();
});

test("without a storage that works, a tab has its streams", async () => {
  const broken = { getItem: () => { throw new Error("denied"); }, setItem: () => { throw new Error("full"); }, removeItem: () => { throw new Error("denied"); } };
  const release = new Slots(broken).take("session", never);
  await vi.advanceTimersByTimeAsync(60_000);
  release?.();
});
