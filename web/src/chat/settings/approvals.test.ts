import { expect, test } from "vitest";

import type { Approval } from "../../api/client.ts";
import { counted, decisionsOf, stateOf } from "./approvals.ts";

const one = (more: Partial<Approval> = {}): Approval => ({ digest: "d", kind: "hook", level: "workspace", file: "f", name: "n", runs: "x", state: "open", ...more });

test("the button counts what waits for a decision, and is quiet otherwise", () => {
  expect(counted([]).text).toBe("");
  expect(counted([one(), one({ state: "denied" }), one({ problem: "too long" })])).toEqual({ text: "1 to approve", urgent: true });
  expect(counted([one({ state: "allowed" })])).toEqual({ text: "1 program", urgent: false });
  expect(counted([one({ state: "off" }), one({ state: "denied" })]).text).toBe("2 programs");
});

test.each([
  [one(), "Does not run: it has not been approved", ["allowed", "denied"]],
  [one({ state: "allowed" }), "May run", ["denied"]],
  [one({ state: "denied" }), "Denied", ["allowed"]],
  [one({ state: "off" }), "Off: this app runs nothing that such files name", []],
  [one({ problem: "too long" }), "Does not run", ["denied"]],
] as const)("%j", (a, state, can) => {
  expect([stateOf(a), decisionsOf(a)]).toEqual([state, can]);
});
