import { expect, test } from "vitest";

import type { Resource } from "../api/client.ts";
import { expanded, mentionAt, nameIn, offered, valuesOf, without } from "./mention.ts";

test.each([
  ["@", 1, ""],
  ["@no", 3, "no"],
  ["see @no", 7, "no"],
  ["see (@no", 8, "no"],
  ["line\n@files:file:///a", 21, "files:file:///a"],
  ["see @no and", 7, "no"],
  ["see @no", 6, undefined], // the caret is inside of it
  ["see @no ", 8, undefined],
  ["ana@example", 11, undefined],
  ["@", 0, undefined],
  ["none", 4, undefined],
  ["", 0, undefined],
])("in %j at %d is typed %j", (text, caret, want) => expect(mentionAt(text, caret)?.typed).toBe(want));

test.each([
  ["@no", 3, "", 0],
  ["see @no", 7, "see ", 4],
  ["see @no now", 7, "see now", 4],
  ["(@no now", 4, "( now", 1],
])("what is chosen is taken out of %j", (text, caret, want, at) => {
  const m = mentionAt(text, caret);
  expect(m && without(text, m)).toEqual({ text: want, caret: at });
});

const all: Resource[] = [
  { server: "files", uri: "file:///plan.md", name: "Plan" },
  { server: "files", uri: "file:///notes/week.md", name: "Week's notes" },
  { server: "crm", uri: "crm://{id}", name: "Contact", template: true },
  { server: "notes", uri: "n:1", name: "Shopping" },
];

test.each([
  ["", ["Plan", "Week's notes", "Contact", "Shopping"]],
  ["PL", ["Plan"]],
  ["notes", ["Shopping", "Week's notes"]],
  ["files:file:///n", ["Week's notes"]],
  ["con", ["Contact"]],
  ["ana", []],
])("%j offers %j", (typed, want) => expect(offered(typed, all, []).map((r) => r.name)).toEqual(want));

test("what is attached is not offered again, but a template is", () => {
  expect(offered("", all, [{ server: "notes", uri: "n:1" }, { server: "crm", uri: "crm://{id}" }]).map((r) => r.name)).toEqual(["Plan", "Week's notes", "Contact"]);
});

test.each([
  ["file:///notes/week%20one.md", "week one.md"],
  ["press://sheet", "sheet"],
  ["https://example.com/a/b/?q=1#x", "b"],
  ["file:///100%", "100%"],
  ["x:y", "x:y"],
  ["x:/", "x:"],
  ["?", "?"],
])("%j is called %j", (uri, want) => expect(nameIn(uri)).toBe(want));

test("the values that a template needs", () => {
  expect(valuesOf("db://{table}/{+path}{?q,limit*,table:3}")).toEqual(["table", "path", "q", "limit"]);
  expect(valuesOf("file:///plain")).toEqual([]);
});

// The examples of RFC 6570, with texts as values.
test.each([
  ["{var}", "value"],
  ["{hello}", "Hello%20World%21"],
  ["{+path}/here", "/foo/bar/here"],
  ["{#path,x}/here", "#/foo/bar,1024/here"],
  ["X{.var}", "X.value"],
  ["{/var,x}/here", "/value/1024/here"],
  ["{;x,y}", ";x=1024;y=768"],
  ["{?x,none,y}", "?x=1024&y=768"],
  ["?fixed=yes{&x}", "?fixed=yes&x=1024"],
  ["{var:3}", "val"],
  ["a{none}b{?none}", "ab"],
])("%s is %s", (template, want) => {
  expect(expanded(template, { var: "value", hello: "Hello World!", path: "/foo/bar", x: "1024", y: "768" })).toBe(want);
});
