import { expect, test } from "vitest";

import { callOf, firstLine } from "./words.ts";

test.each([
  ["read_slack_mock", { query: "voltage" }, "Read slack mock: voltage"],
  ["mcp__files__read_text_file", { path: "garden.txt" }, "Read text file: garden.txt"],
  ["mcp__", undefined, "Mcp"],
  ["note_add", { a: 1, b: { c: 2 } }, "Note add"],
  ["toString", undefined, "ToString"],
])("%s %j", (tool, input, want) => expect(callOf(tool, input)).toBe(want));

test("the first line of a result says what it is", () => {
  expect(firstLine("\n5 of 5 entities that fit, the best first:\n- light.x = on")).toBe("5 of 5 entities that fit, the best first");
  expect(firstLine("garden/roses.md was changed. It now has:\n1\t# Roses")).toBe("garden/roses.md was changed.");
  expect(firstLine("")).toBe("");
});
