import { describe, expect, test } from "vitest";

import { attacks } from "../testing/attacks.ts";
import { bounds, cut, markupIn, piecesOf, uncut } from "./blocks.ts";

const pieces = (text: string) => piecesOf(cut(text));
const short = (text: string) => pieces(text).map((p) => [p.kind, p.text.trim()]);

const filler = "word ".repeat(400);

const answer = `First **bold**.\n\nSecond one,\nin two lines.\n\n${filler}\n\n- a\n- b\n\n  more\n\n\`\`\`go\nfunc main() {}\n\n\n\`\`\`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> quoted\n\nEnd, see [it][1].\n\n[1]: https://example.com/x\n`;

describe("a text is cut", () => {
  test("where Markdown is", () => {
    expect(short("# One\n\nTwo\nthree\n\n- a\n- b\n\n```js x\nx\n\ny\n```\n")).toEqual([
      ["markdown", "# One\n\nTwo\nthree\n\n- a\n- b"],
      ["code", "x\n\ny"],
    ]);
  });

  test("while it grows as it is cut when it is whole, and only its last piece changes", () => {
    let growing = uncut;
    let before: string[] = [];
    for (let n = 1; n <= answer.length; n += n > 60 && n < 60 + filler.length ? 97 : 1) {
      const text = answer.slice(0, n);
      growing = cut(text, growing);
      expect(piecesOf(growing), text).toEqual(pieces(text));
      const now = piecesOf(growing).map((p) => p.text.trimEnd());
      if (n < answer.indexOf("[1]: ")) expect(now.slice(0, Math.max(0, before.length - 1))).toEqual(before.slice(0, -1));
      before = now;
    }
  });

  test("again when it has changed in another way", () => {
    expect(piecesOf(cut("Other.\n\nText.", cut("First.\n\nText.")))).toEqual(pieces("Other.\n\nText."));
  });

  test("with the definitions that a piece uses, and no others", () => {
    const out = short(`See [it][One] and [two].\n\n${filler}\n\nA[^1].\n\n[one]: /1\n[two]: /2\n[three]: /3\n\n[^1]: B[^2]\n\n[^2]: C[^1]\n`);
    expect(out).toEqual([
      ["markdown", "See [it][One] and [two].\n\n[one]: /1\n\n\n[two]: /2"],
      ["markdown", filler.trim()],
      ["markdown", "A[^1].\n\n[^1]: B[^2]\n\n[^2]: C[^1]"],
    ]);
  });

  test("into more pieces where one would be too much, and nothing is lost", () => {
    const list = Array.from({ length: 3000 }, (_, i) => `${i + 1}. item **${i}**\n`).join("");
    const out = pieces(`${list}\nend`);
    expect(out.length).toBeGreaterThan(10);
    expect(out.map((p) => p.text).join("").replaceAll("\n", "")).toBe(`${list}end`.replaceAll("\n", ""));
    const rows = Array.from({ length: 3000 }, (_, i) => `| ${i} | x |\n`).join("");
    const head = "| a | b |\n|---|---|\n";
    const tables = pieces(head + rows).filter((p) => p.kind === "markdown");
    expect(tables.length).toBeGreaterThan(3);
    for (const t of tables) expect(t.text.startsWith(head)).toBe(true);
  });
});

describe("an answer has at most so many", () => {
  const lines = (n: number, line: (i: number) => string) => Array.from({ length: n }, (_, i) => line(i)).join("");

  test.each([
    ["quotes", ">"],
    ["quotes with spaces", "> "],
    ["lists", "- "],
    ["numbered lists", "1. "],
    ["lists and quotes", "- > "],
  ])("%s in one another", (_name, marks) => {
    const each = marks.trim().split(" ").length;
    const most = marks.repeat(16 / each);
    expect(pieces(`a\n\n${most} end`).map((p) => p.kind)).toEqual(["markdown"]);
    expect(pieces(`a\n\n${most}${marks} end`).map((p) => p.kind)).toEqual(["markdown", "plain"]);
  });

  test("lists in one another, over lines", () => {
    const most = lines(33, (i) => `${"  ".repeat(i)}- a\n`);
    expect(short(`b\n\n${most}`)).toEqual([["markdown", `b\n\n${most}`.trim()]]);
    expect(short(`b\n\n${most}${"  ".repeat(33)}- a\n`)[1]?.[0]).toBe("plain");
  });

  test("definitions, and blocks that use none are drawn", () => {
    const [last, next] = pieces(`[d 999]\n\n${filler}\n\n[d 1000]\n\n${lines(1001, (i) => `[d ${i}]: /${i}\n`)}`).filter((p) => p.text.startsWith("[d "));
    expect(last?.text).toBe("[d 999]\n\n[d 999]: /999\n");
    expect(next?.text.trim()).toBe("[d 1000]");
  });

  test("definitions that one piece uses", () => {
    const [piece] = pieces(`${lines(51, (i) => `[d ${i}] `)}\n\n${lines(51, (i) => `[d ${i}]: /${i}\n`)}`);
    expect(piece?.kind).toBe("markdown");
    expect(piece?.text.match(/\]: /g)?.length).toBe(50);
  });
});

describe("no piece is too much, and nothing is lost, in", () => {
  test.each(Object.entries(attacks))("%s", (_name, make) => {
    const text = make();
    const began = process.cpuUsage();
    const out = pieces(text);
    const spent = process.cpuUsage(began);
    let markup = 0;
    for (const p of out) {
      if (p.kind !== "markdown") continue;
      expect(p.text.length).toBeLessThanOrEqual(bounds.piece);
      expect(markupIn(p.text)).toBeLessThanOrEqual(bounds.markup);
      markup += markupIn(p.text);
    }
    expect(markup).toBeLessThanOrEqual(bounds.allMarkup);
    expect(out.some((p) => p.text.includes("end"))).toBe(true);
    // Processor time, in microseconds: a busy machine does not add to it.
    expect(spent.user + spent.system, "measured: under 0.7 s for each; 51 s before there were bounds").toBeLessThan(5_000_000);
  }, 20_000);
});
