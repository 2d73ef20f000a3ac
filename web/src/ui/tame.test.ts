import { expect, test } from "vitest";

import { oneLine, tame, tameCode } from "./tame.ts";

test("characters that reorder text are shown by number, and in code all direction marks", () => {
  expect(tame("a\u202eb\r\nc\u2067d")).toBe("a[U+202E]b\nc\u2067d");
  expect(tameCode("if (x\u2067) //\u202a")).toBe("if (x[U+2067]) //[U+202A]");
});

test("a letter keeps the marks that scripts need", () => {
  const vietnamese = "e\u0323\u0302";
  expect(tame(vietnamese)).toBe(vietnamese);
  expect(tame(`a${"\u0301".repeat(900)}b`)).toBe(`a${"\u0301".repeat(8)}b`);
});

test("a name is one line that can be seen", () => {
  expect(oneLine("  Why \n did\tit? ", 40)).toBe("Why did it?");
  expect(oneLine("\u200b\u2060\ufeff\u202e", 40)).toBe("");
  expect(oneLine("👩\u200d🔧 x", 40)).toBe("👩\u200d🔧 x");
  expect(oneLine("abcdef", 4)).toBe("abc…");
  expect(oneLine("x".repeat(1_000_000), 4)).toBe("xxx…");
});
