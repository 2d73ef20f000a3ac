import { expect, test } from "vitest";

import { again } from "./lazily.ts";

test("what cannot be had is asked for again, until it is there or the waits are over", async () => {
  const waited: number[] = [];
  const pause = (ms: number) => (waited.push(ms), Promise.resolve());
  let down = 2;
  expect(await again(() => (down-- > 0 ? Promise.reject(new TypeError("gone")) : Promise.resolve("there")), pause)).toBe("there");
  expect(waited).toEqual([300, 600]);
  await expect(again(() => Promise.reject(new TypeError("gone")), pause)).rejects.toThrow("gone");
  expect(waited).toHaveLength(7);
});
