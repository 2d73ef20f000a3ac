import { expect, test } from "vitest";

import type { Interaction } from "../api/types.gen.ts";
import { closingOf, outcomeOf, whoOf } from "./outcome.ts";

const ask = (i: Partial<Interaction>): Interaction => ({ id: "i", session: "s", turn: "t", kind: "permission", title: "Allow it?", opened_at: "", ...i });

test("how it ended, in words", () => {
  expect(outcomeOf({ interaction: ask({}), answer: { choice: "allow" } })).toBe("Allowed once");
  expect(outcomeOf({ interaction: ask({}), answer: { choice: "allow", input: {} } })).toBe("Allowed once, with edited input");
  expect(outcomeOf({ interaction: ask({ kind: "confirmation" }), answer: { choice: "deny" } })).toBe("Not confirmed");
  expect(outcomeOf({ interaction: ask({ kind: "unknown" }), answer: { choice: "again" } })).toBe("To be done again");
  expect(outcomeOf({ interaction: ask({}), expired: "over" })).toBe("Closed without an answer");
  expect(outcomeOf({ interaction: ask({ kind: "question" }), answer: { choice: "deny" } })).toBe("Skipped");
  expect(outcomeOf({ interaction: ask({ kind: "question", sampling: "deep" }), answer: { choice: "deny" } })).toBe("Denied");
  expect(outcomeOf({ interaction: ask({ kind: "client" }), answer: { choice: "claimed" } })).toBe("Claimed by a client");
  expect(outcomeOf({ interaction: ask({ kind: "client" }), answer: { choice: "deny" } })).toBe("Went on without it");
  expect(outcomeOf({ interaction: ask({ kind: "client" }), expired: "over" })).toBe("No client claimed it");
});

test.each<[string, string | undefined, string | undefined, string]>([
  ["the only user, on this page", "local", "api", ""],
  ["the only user, elsewhere", "local", "mcp", "from another program"],
  ["a user with a name", "ana", "api", "by ana"],
  ["a user with a name, elsewhere", "ana", "mcp", "by ana from another program"],
  ["a user of Home Assistant", "0123456789abcdef0123456789abcdef", "api", "by you"],
  ["nobody", undefined, undefined, ""],
])("who: %s", (_, by, client, want) => {
  expect(whoOf({ ...(by && { by }), ...(client && { client }) })).toBe(want);
});

test("an answer in the log is read in the words of its kind", () => {
  expect(closingOf({ id: "i", answer: { choice: "allow" }, by: "local", client: "api" }, ask({ kind: "confirmation" }))).toBe("Confirmed");
  expect(closingOf({ id: "i", answer: { choice: "allow_session" }, by: "ana" }, ask({}))).toBe("Allowed for this conversation by ana");
  expect(closingOf({ id: "i", answer: { choice: "deny" } }, undefined)).toBe("Denied");
});
