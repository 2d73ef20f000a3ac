// The choice of a runtime: only where the app offers one, and by names that people know.

import { expect, test } from "vitest";

import { runtimeOf, runtimesOf } from "./runtimes.ts";

const names = (runtime?: string, runtimes?: string[]) => runtimesOf({ ...(runtime && { runtime }), ...(runtimes && { runtimes }) }).map((r) => [r.value, r.name]);

test("there is a choice only where the app offers another runtime", () => {
  expect(names()).toEqual([]);
  expect(names("loop")).toEqual([]);
  expect(names("loop", ["loop"])).toEqual([]);
  expect(names("loop", ["loop", "claude"])).toEqual([["", "Parley"], ["claude", "Claude CLI"]]);
  expect(names("claude", ["loop", "claude"]), "the app's own is first").toEqual([["", "Claude CLI"], ["loop", "Parley"]]);
  expect(names("loop", ["other"]), "one that the page does not know has its own name").toEqual([["", "Parley"], ["other", "other"]]);
});

test("one that is not there says why, and cannot be chosen", () => {
  const [loop, claude] = runtimesOf({ runtime: "loop", runtimes: ["claude"], runtimes_missing: { claude: "the Claude CLI is not installed" } });
  expect([loop?.missing, claude?.missing, claude?.hint]).toEqual([false, true, "Not now: the Claude CLI is not installed."]);
});

test("a session has its own runtime, or the app's", () => {
  expect([runtimeOf({ runtime: "loop" }, "claude"), runtimeOf({ runtime: "loop" }, ""), runtimeOf({}, ""), runtimeOf(undefined, "claude")]).toEqual(["claude", "loop", "", "claude"]);
});
