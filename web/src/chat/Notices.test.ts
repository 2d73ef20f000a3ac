import { expect, test } from "vitest";

import { sameAs } from "./Notices.tsx";

test("a notice that counts down is shown once, and one about another line again", () => {
  const again = (after: string) => `the MCP server attic failed: exit status 1; it is started again in ${after} at the earliest`;
  expect(sameAs(again("11s"))).toBe(sameAs(again("1m2s")));
  expect(sameAs("app.yaml:12: gardner.md is missing")).not.toBe(sameAs("app.yaml:13: gardner.md is missing"));
});
