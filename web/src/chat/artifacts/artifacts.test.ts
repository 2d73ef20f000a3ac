import { expect, test } from "vitest";

import { most, readTable } from "./csv.ts";
import { kindOf, largest } from "./kind.ts";

test.each([
  ["a,b\n1,2\n", [["a", "b"], ["1", "2"]]],
  ['name,says\r\n"Rui, Ana","a ""b""\nc"', [["name", "says"], ["Rui, Ana", 'a "b"\nc']]],
  ["a;b\n1,5;2", [["a", "b"], ["1,5", "2"]]],
  ["a\tb\n\n1\t2", [["a", "b"], ["1", "2"]]],
  ['\ufeffa,b\n=HYPERLINK("x"),<b>', [["a", "b"], ['=HYPERLINK("x")', "<b>"]]],
  ['a,"never closed\n1', [["a", "never closed\n1"]]],
  ["", []],
])("%j is a table", (text, want) => expect(readTable(text).rows).toEqual(want));

test("a hostile table is cut", () => {
  const wide = readTable("x,".repeat(5000));
  expect([wide.rows[0]?.length, wide.cut]).toEqual([most.columns, true]);
  const long = readTable("x\n".repeat(20_000));
  expect([long.rows.length, long.total, long.cut]).toEqual([most.rows, 20_000, false]);
  const deep = readTable("y".repeat(100_000));
  expect([deep.rows[0]?.[0]?.length, deep.cut]).toEqual([most.cell, true]);
});

test.each([
  ["image/png", 10, "picture"],
  ["image/svg+xml; charset=utf-8", 10, "picture"],
  ["image/png", largest.picture + 1, "file"],
  ["text/csv", 10, "table"],
  ["text/csv", largest.table + 1, "file"],
  ["TEXT/HTML", 10, "page"],
  ["application/xhtml+xml", 10, "text"],
  ["application/pdf", 10, "pdf"],
  ["application/json", 10, "text"],
  ["text/javascript", 10, "file"],
  ["application/octet-stream", 10, "file"],
  ["", 10, "file"],
])("%s of %d bytes is shown as a %s", (media_type, size, want) => expect(kindOf({ media_type, size })).toBe(want));
