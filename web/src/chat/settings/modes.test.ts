import { expect, test } from "vitest";

import type { Effect, PermissionMode } from "../../api/types.gen.ts";
import { offersMode, showsMode } from "./modes.ts";

const app = (effects: Effect[], ...modes: PermissionMode[]) => ({ tools: effects.map((effect) => ({ name: effect, description: "", effect })), modes });

test.each([
  ["a tool that changes something", app(["read", "write"], "default", "plan"), "default", true],
  ["tools that only read", app(["read"], "default", "acceptEdits", "plan"), "default", false],
  ["tools that only read, and leave to ask nothing", app(["read"], "default", "bypassPermissions"), "default", true],
  ["tools that only read, in a mode that was chosen", app(["read"], "default", "plan"), "plan", true],
  ["an app that is not known yet", undefined, "default", false],
  ["an app that is not known yet, in a mode that was chosen", undefined, "bypassPermissions", true],
] as const)("the mode of a conversation is shown: %s", (_, app, mode, shown) => {
  expect(showsMode(app, mode)).toBe(shown);
});

test("the mode about edits is offered only where something edits files", () => {
  const plain = app(["read", "write"], "default", "acceptEdits", "plan");
  const editing = { ...plain, tools: [...plain.tools, { name: "Edit", description: "", effect: "write" as const, edits: true }] };
  expect(offersMode(plain, "acceptEdits")).toBe(false);
  expect(offersMode(editing, "acceptEdits")).toBe(true);
  expect(offersMode({ ...editing, modes: ["default"] }, "acceptEdits")).toBe(false);
  expect(offersMode(undefined, "default")).toBe(true);
});
