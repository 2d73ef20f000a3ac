import { describe, expect, test } from "vitest";

import { beside, bounds, compare, compareParts, partsOf, readPatch, type Diff, type Line } from "./diff.ts";

/** A diff in the form of a patch, with the numbers of lines. */
const written = (d: Diff | undefined) =>
  d?.hunks.flatMap((h) => [...(h.skipped > 0 ? [`… ${h.skipped}`] : []), ...h.lines.map((l) => `${l.before ?? ""},${l.after ?? ""} ${{ same: " ", added: "+", removed: "-" }[l.kind]}${l.text}${l.last ? " (end)" : ""}`)]);

const list = (n: number, at = -1, text = "") => Array.from({ length: n }, (_, i) => (i === at ? text : `line ${i + 1}`)).join("\n") + "\n";

describe("two texts", () => {
  test("that are the same have no difference", () => expect(compare("a\n", "a\n")).toEqual({ hunks: [], added: 0, removed: 0 }));

  test("differ in a line, with the lines around it and their numbers", () => {
    const d = compare(list(20), list(20, 9, "other"));
    expect(written(d)).toEqual(["… 6", "7,7  line 7", "8,8  line 8", "9,9  line 9", "10, -line 10", ",10 +other", "11,11  line 11", "12,12  line 12", "13,13  line 13"]);
    expect([d.added, d.removed]).toEqual([1, 1]);
  });

  test("of which one is new or gone", () => {
    expect(written(compare("", "a\nb\n"))).toEqual([",1 +a", ",2 +b"]);
    expect(written(compare("a\nb\n", ""))).toEqual(["1, -a", "2, -b"]);
    expect(written(compare("", "a"))).toEqual([",1 +a (end)"]);
  });

  test("differ at their end", () => {
    expect(written(compare("a\nb", "a\nb\n"))).toEqual(["1,1  a", "2, -b (end)", ",2 +b"]);
    expect(written(compare("a\n", "a\nb\n"))).toEqual(["1,1  a", ",2 +b"]);
  });

  test("that go on after the change do not end in it", () => {
    const d = compare(list(50), list(50, 0, "first"));
    expect(d.hunks.flatMap((h) => h.lines).some((l) => l.last)).toBe(false);
    expect(written(d)?.[0]).toBe("1, -line 1");
  });

  test("differ in two places far from each other", () => {
    const d = compare(list(100), list(100, 10, "x").replace("line 90\n", "y\n"));
    expect(d.hunks.map((h) => h.skipped)).toEqual([7, 72]);
    expect(written(d)).toContain(",90 +y");
  });

  test("with repeated lines: what is cut off at both ends does not overlap", () => {
    for (const [a, b] of [["a\na\na\n", "a\na\n"], ["x\nx\n", "x\nx\nx\n"], ["\n\n\n\n\n\n\n\n\n", "\n\n\n\n\n"], ["ab", "aab"], ["a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nd\ne\nf\ng\nh\n"]] as const) {
      const d = compare(a, b);
      expect(d.added - d.removed, JSON.stringify([a, b])).toBe((b.match(/\n/g)?.length ?? 0) - (a.match(/\n/g)?.length ?? 0));
    }
  });

  test("of random lines: the rows give both texts back", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 16807) % 2147483647) % n;
    for (let round = 0; round < 300; round++) {
      const text = () => Array.from({ length: random(14) }, () => "abc"[random(3)]).join("\n") + (random(2) ? "\n" : "");
      const [a, b] = [text(), text()];
      const d = compare(a, b);
      const lines = d.hunks.flatMap((h) => h.lines);
      const rebuilt = (text: string, side: "before" | "after") => {
        const all = text.split("\n");
        for (const l of lines) if (l[side] !== undefined) expect(all[l[side] - 1], JSON.stringify({ a, b, l })).toBe(l.text);
        return lines.filter((l) => l[side] !== undefined).length;
      };
      expect(rebuilt(a, "before") - rebuilt(b, "after")).toBe(d.removed - d.added);
    }
  });

  test("that are large and unlike are shown as replaced, soon", () => {
    const big = (seed: number) => Array.from({ length: 20_000 }, (_, i) => `${(i * seed) % 9973} ${i ^ seed}`).join("\n");
    const began = performance.now();
    const d = compare(big(7), big(11));
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(d.added).toBeGreaterThan(15_000);
    expect(written(compare("a\n".repeat(bounds.text), "b\n".repeat(10)))?.at(-1)).toBe(",10 +b");
  });

  test("of a large file differ in a line: the rest costs nothing", () => {
    const began = performance.now();
    expect(compare(list(200_000), list(200_000, 100_000, "x")).hunks.map((h) => h.skipped)).toEqual([99_997]);
    expect(performance.now() - began).toBeLessThan(20_000);
  });
});

describe("a line that changed", () => {
  const marks = (a: string, b: string) => compare(a, b).hunks.flatMap((h) => h.lines.map((l) => partsOf(l).map((p) => (p.changed ? `[${p.text}]` : p.text)).join("")));

  test("has its words marked", () => expect(marks("The garden has roses.", "The garden has 12 roses.")).toEqual(["The garden has roses.", "The garden has [12 ]roses."]));
  test("that has little in common with the other is a line of its own", () => expect(marks("alpha beta gamma", "something else entirely")).toEqual(["alpha beta gamma", "something else entirely"]));
  test("that is too long has no marks", () => expect(marks(`${"word ".repeat(300)}a`, `${"word ".repeat(300)}b`).join("")).not.toContain("["));
  test("only in its end shows the end", () => expect(marks("a b c d\r\nx\n", "a b c d\nx\n")).toEqual(["a b c d[␍]", "a b c d", "x"]));
  test("shows no line ends where all are alike", () => expect(marks("a\r\nb b b\r\n", "a\r\nb b c\r\n")).toEqual(["a", "b b [b]", "b b [c]"]));
  test("says what would reverse or hide it", () => expect(marks("", "a\u202eb\u200fc")).toEqual(["a[U+202E]b[U+200F]c"]));
});

describe("a patch", () => {
  test("of the server is read", () => {
    const d = readPatch("--- a/a.md\n+++ b/a.md\n@@ -7,3 +7,4 @@\n seven\n-eight\n+acht\n+eight and a half\n nine\n\\ No newline at end of file\n");
    expect(written(d)).toEqual(["… 6", "7,7  seven", "8, -eight", ",8 +acht", ",9 +eight and a half", "9,10  nine (end)"]);
    expect([d?.added, d?.removed]).toEqual([2, 1]);
  });

  test.each(["", "no diff", "--- a\n+++ b\n@@ -1,2 +1 @@\n", "@@ -1 +1 @@\n-a\n+b\n".repeat(bounds.text)])("that is none is not shown", (text) => expect(readPatch(text)).toBeUndefined());
});

test("parts of texts have no numbers, and do not end a file", () =>
  expect(written(compareParts("a\nb", "a\nc"))).toEqual([",  a", ", -b", ", +c"]));

test("lines beside each other", () => {
  const text = (l: Line | undefined) => l?.text ?? "";
  expect(compare("a\nb\nc\nd\n", "a\nB\nc\nd\ne\n").hunks.flatMap((h) => beside(h.lines)).map((r) => [text(r.left), text(r.right)])).toEqual([
    ["a", "a"],
    ["b", "B"],
    ["c", "c"],
    ["d", "d"],
    ["", "e"],
  ]);
});
