import { expect, test } from "vitest";

import { linkedText, linksByNote } from "./backlinks.ts";

test("notes are listed once, with their first lines", () => {
  const l = (path: string, line: number) => ({ path, line, text: `line ${line}` });
  expect(linksByNote([])).toEqual([]);
  expect(linksByNote([l("a.md", 1), l("b.md", 2), l("a.md", 5), l("a.md", 6), l("a.md", 7)])).toEqual([
    { path: "a.md", lines: [l("a.md", 1), l("a.md", 5), l("a.md", 6)] },
    { path: "b.md", lines: [l("b.md", 2)] },
  ]);
});

test("a line is shown as it reads", () => {
  expect(linkedText("- [ ] ask [[people/Ana|Ana]] and [[Bob]]")).toBe("ask Ana and Bob");
  expect(linkedText("## see [the plan](<../my plan.md>), [b](b_(1).md \"B\") and ![](x.png)")).toBe("see the plan, b and");
  expect(linkedText("[[Note#Part]] 1. first")).toBe("Note › Part 1. first");
  expect(linkedText("[[" + "x".repeat(400))).toHaveLength(200);
});
