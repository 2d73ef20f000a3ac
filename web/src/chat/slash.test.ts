import { expect, test } from "vitest";

import { commandsOf, doneHere, matching } from "./slash.ts";

const all = commandsOf(
  [{ name: "new" }, { name: "report", argument_hint: "WEEK" }, { name: "review" }, { name: "git:Push" }],
  [
    { name: "about", here: true },
    { name: "new", here: true },
  ],
);

test("the session's commands come first, and hide the page's", () => {
  expect(all.map((c) => [c.name, c.here])).toEqual([["new", undefined], ["report", undefined], ["review", undefined], ["git:Push", undefined], ["about", true]]);
});

test.each([
  ["/", ["new", "report", "review", "git:Push", "about"]],
  ["/RE", ["report", "review"]],
  ["/git:p", ["git:Push"]],
  ["/report ", []],
  ["see /re", []],
  ["/etc/passwd", []],
  ["", []],
])("%j offers %j", (text, want) => expect(matching(text, all).map((c) => c.name)).toEqual(want));

test.each([
  ["/about", "about"],
  ["/about this", undefined],
  ["/new", undefined],
  ["/constructor", undefined],
  ["about", undefined],
])("%j is done here: %j", (message, want) => expect(doneHere(message, all)).toBe(want));
