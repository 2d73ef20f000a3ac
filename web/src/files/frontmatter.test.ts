import { describe, expect, test } from "vitest";

import { readNote, splitNote } from "./frontmatter.ts";

const properties = (text: string) => readNote(text).properties.map((p) => `${p.name}: ${p.list ? `[${p.values.join("; ")}]` : p.values.join()}`);

test("a note and its properties", () => {
  const note = readNote("---\ntitle: Roses\ntags: [garden, red]\ndate: 2026-03-01\nrating: 4\ndone: false\nempty:\nnested: {a: 1}\n---\n# Roses\n");
  expect(note.body).toBe("# Roses\n");
  expect(note.line).toBe(10);
  expect(properties("---\ntitle: Roses\ntags: [garden, red]\ndate: 2026-03-01\nrating: 4\ndone: false\nempty:\nnested: {a: 1}\n---\n")).toEqual([
    "title: Roses", "tags: [garden; red]", "date: 2026-03-01", "rating: 4", "done: false", "empty: ", 'nested: {"a":1}',
  ]);
});

test.each(["# Roses\n---\na: b\n---\n", "--- a\nb\n---\n", "text", "", "---\nnever closed\n", "----\na: b\n----\n"])("a note without properties: %j", (text) => {
  expect(splitNote(text)).toEqual({ raw: "", body: text, line: 1 });
});

test.each(["---\n---\nx", "\ufeff---\r\na: b\r\n---\r\nx", "---\na: b\n...\nx"])("ends of lines and of properties in %j", (text) => expect(splitNote(text).body).toBe("x"));

describe("properties that cannot be read say why, and stay as they are", () => {
  test.each([["a: [1", /./], ["- a\n- b", /no values with names/], ["a: 1\na: 2", /unique/i]])("%j", (raw, want) => {
    const note = readNote(`---\n${raw}\n---\nbody`);
    expect([note.properties.length, note.raw.trim(), note.body]).toEqual([0, raw, "body"]);
    expect(note.problem).toMatch(want);
  });

  test("a bomb of references does not go off", () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${[..."bcdefghij"].map((c, i) => `${c}: &${c} [${Array(9).fill(`*${"abcdefghi"[i]}`).join()}]`).join("\n")}`;
    expect(readNote(`---\n${bomb}\n---\n`).problem).toMatch(/alias/i);
  });

  test("very many", () => expect(readNote(`---\n${Array.from({ length: 900 }, (_, i) => `k${i}: 1`).join("\n")}\n---\n`).properties.length).toBe(60));
});
