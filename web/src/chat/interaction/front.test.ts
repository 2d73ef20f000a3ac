import { expect, test } from "vitest";

import { fieldsOf } from "./front.ts";

const page = "---\nkind: doc\nstatus: active\ntags: [a, b]\nrank: 2\nempty:\n---\n\n# Text\n";
const said = (front: Record<string, unknown>, text = page) =>
  fieldsOf(front, { state: "read", text }).fields.map(({ name, what, before, after }) => [name, what, before?.values.join(","), after?.values.join(",")]);

test("each value that is set or removed has what it is now, in the order of names", () => {
  expect(said({ status: "draft", kind: null, tags: ["b"], owner: "Ana", rank: 2, gone: null, empty: "x" })).toEqual([
    ["empty", "changed", "", "x"],
    ["gone", "absent", undefined, undefined],
    ["kind", "removed", "doc", undefined],
    ["owner", "new", undefined, "Ana"],
    ["rank", "same", "2", "2"],
    ["status", "changed", "active", "draft"],
    ["tags", "changed", "a,b", "b"],
  ]);
});

test("a value that becomes a list changes", () => expect(said({ status: ["active"] })).toEqual([["status", "changed", "active", "active"]]));

test("a page without front matter gets one", () => expect(said({ status: "draft", owner: null }, "# Text\n")).toEqual([["owner", "absent", undefined, undefined], ["status", "new", undefined, "draft"]]));

test("of a page that cannot be read, only the new values are said", () => {
  const { fields, note } = fieldsOf({ a: 1, b: null }, { state: "unknown" });
  expect([fields.map((f) => f.what), note]).toEqual([["set", "removed"], ""]);
});

test("front matter that is broken is not changed", () => expect(fieldsOf({ a: 1 }, { state: "read", text: "---\na: [1\n---\n" }).note).toMatch(/the call will fail/));
