import { describe, expect, test } from "vitest";

import { cardOf, inLines, mayBeCard, proposalOf, rawOf, visible } from "./card.ts";

describe("cardOf", () => {
  test("takes the body as it is written: nothing is rounded, ordered or left out", () => {
    const body = '{"b": 12345678901234567890, "a":1.0,"a":2.50, "t":"\\u0041\\"}{"}';
    expect(cardOf(` {"type":"confirm","id":"i1","title":"T","summary":"S","method":"post","path":"/api/leads","body":${body} }\n`)).toEqual({
      id: "i1",
      title: "T",
      summary: "S",
      method: "POST",
      path: "/api/leads",
      body,
      state: "open",
    });
  });

  test.each([
    ["words", "Confirm it?"],
    ["an object of another type", '{"type":"other","id":"i","method":"POST","path":"/"}'],
    ["one without an id", '{"type":"confirm","method":"POST","path":"/"}'],
    ["one in a code block", '```json\n{"type":"confirm","id":"i","method":"POST","path":"/"}\n```'],
    ["one with words behind it", '{"type":"confirm","id":"i","method":"POST","path":"/"} Shall I?'],
    ["half of one", '{"type":"confirm","id":"i"'],
  ])("is none: %s", (_, text) => expect(cardOf(text)).toBeUndefined());

  test("a body of null is none", () => {
    expect(cardOf('{"type":"confirm","id":"i","title":"","summary":"","method":"DELETE","path":"/x","body":null}')).not.toHaveProperty("body");
  });
});

test("a growing text that may become a card is not shown", () => {
  expect(mayBeCard(' {"ty')).toBe(true);
  expect(mayBeCard("Here { it is")).toBe(false);
});

test("rawOf finds a field by its name, not by what looks like it", () => {
  expect(rawOf('{"x":{"body":1},"y":"\\"body\\":2","bo\\u0064y":[3,{"z":"]"}]}', "body")).toBe('[3,{"z":"]"}]');
  expect(rawOf('{"body":1,"body":2}', "body")).toBe("2");
  expect(rawOf("{}", "body")).toBeUndefined();
});

test("inLines changes spaces between tokens alone", () => {
  const json = '{"a":[1,2.50,{}],"b":"x,  {y}: \\" z","c":[],"d":{"e":null}}';
  const lines = inLines(json);
  expect(lines).toBe('{\n  "a": [\n    1,\n    2.50,\n    {}\n  ],\n  "b": "x,  {y}: \\" z",\n  "c": [],\n  "d": {\n    "e": null\n  }\n}');
  expect(inLines(lines)).toBe(lines);
});

test("what is invisible or turns the text round is shown", () => {
  expect(visible("a\u202eb\u200bc\u00a0d\n")).toBe("a[U+202E]b[U+200B]c[U+00A0]d\n");
});

test("proposalOf writes the request as the server sends it", () => {
  const input = '{"method":"POST","path":"/api/leads","query":{"z":"a b+(c)","n":10.0,"l":["ü",true]},"body":{"v":1.50},"title":"T"}';
  expect(proposalOf(input)).toEqual({ title: "T", summary: "", method: "POST", path: "/api/leads?l=%C3%BC&l=true&n=10.0&z=a%20b%2B%28c%29", body: '{"v":1.50}' });
  expect(proposalOf('{"method":"DELETE","path":"/x","body":null}')).toEqual({ title: "", summary: "", method: "DELETE", path: "/x" });
  for (const bad of ["", "null", "[1]", '{"path":"/x"}', "{"]) expect(proposalOf(bad)).toBeUndefined();
});
