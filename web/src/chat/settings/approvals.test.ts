import { expect, test } from "vitest";

import type { Approval } from "../../api/client.ts";
import { counted, decisionsOf, meaningOf, stateOf, wordsOf } from "./approvals.ts";

const one = (more: Partial<Approval> = {}): Approval => ({ digest: "d", kind: "hook", level: "workspace", file: "f", name: "n", runs: "x", state: "open", ...more });

test("the button counts what waits for a decision, and is quiet otherwise", () => {
  expect(counted([]).text).toBe("");
  expect(counted([one(), one({ state: "denied" }), one({ problem: "too long" })])).toEqual({ text: "1 to approve", urgent: true });
  expect(counted([one({ state: "allowed" })])).toEqual({ text: "1 program", urgent: false });
  expect(counted([one({ state: "denied", remote: true })]).text).toBe("1 service");
  expect(counted([one({ state: "denied", remote: true }), one({ state: "denied" })]).text).toBe("2 entries");
  expect(counted([one({ state: "off" }), one({ state: "denied" })]).text).toBe("2 programs");
});

test.each([
  [one(), "Does not run: it has not been approved", ["allowed", "denied"]],
  [one({ state: "allowed" }), "May run", ["denied"]],
  [one({ state: "denied" }), "Denied", ["allowed"]],
  [one({ state: "off" }), "Off: this app runs nothing that such files name", []],
  [one({ problem: "too long" }), "Does not run", ["denied"]],
  [one({ remote: true }), "Is not called: it has not been approved", ["allowed", "denied"]],
  [one({ remote: true, state: "allowed" }), "May be called", ["denied"]],
  [one({ remote: true, problem: "unknown host" }), "Is not called", ["denied"]],
] as const)("%j", (a, state, can) => {
  expect([stateOf(a), decisionsOf(a)]).toEqual([state, can]);
});

test("what is called over HTTP is no program, even if a program's name looks like an address", () => {
  expect(meaningOf(one({ kind: "mcp_server", runs: "https://example.com/mcp", remote: true }))).toMatch(/^A service, .* Nothing of it runs on the server/);
  expect(meaningOf(one({ remote: true }))).toMatch(/^A service, .* is told what the agent does/);
  expect(meaningOf(one({ kind: "mcp_server", runs: "https://example.com/mcp" }))).toMatch(/^A program, /);
});

test("a command line is drawn word by word, and is whole", () => {
  const line = "  node --a-b  x\n--c=d ";
  expect(wordsOf(line)).toEqual(["  ", "node", " ", "--a-b", "  ", "x", "\n", "--c=d", " "]);
  expect(wordsOf(line).join("")).toBe(line);
});
