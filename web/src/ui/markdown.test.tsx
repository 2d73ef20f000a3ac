import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";

import { attacks } from "../testing/attacks.ts";
import { Markdown } from "./markdown.tsx";

const html = (text: string) => renderToStaticMarkup(<Markdown text={text} />);

describe("Markdown", () => {
  test("a definition serves every block", () => {
    expect(html("See [it][1].\n\nMore.\n\n[1]: https://example.com/x")).toContain('href="https://example.com/x"');
  });

  test("draws the Markdown of answers", () => {
    expect(html("**Google OAuth** with `authlib`")).toBe('<div class="prose"><p dir="auto"><strong>Google OAuth</strong> with <code>authlib</code></p></div>');
    expect(html("| a | b |\n|---|---|\n| 1 | 2 |")).toContain("<td>2</td>");
    expect(html("| Date |\n|--:|\n| 2026-01-15 |")).toContain('<td style="text-align:right" class="whitespace-nowrap">2026-01-15</td>');
    // Each block has the direction of its own first letter.
    expect(html("# نعم\n\n- نعم\n\n| نعم | b |\n|---|---|\n| 1 | 2 |")).toMatch(/<h1 dir="auto">[^]*<ul dir="auto">[^]*<div class="sheet"[^>]* dir="auto">/);
  });

  test("raw HTML stays text, and scripts are no links", () => {
    const out = html('<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) <b onclick="y">z</b>');
    expect(out).not.toMatch(/<img|<b |href="javascript/);
  });

  test("evidence is folded below the answer, and other quotations are not", () => {
    const out = html("It is on.\n\n> **Evidence**\n>\n> - Lamp: on since 17:45\n> - Plug: off");
    expect(out).toMatch(/<details class="evidence"><summary>Evidence<\/summary>\s*<ul>\s*<li>Lamp: on since 17:45<\/li>\s*<li>Plug: off<\/li>\s*<\/ul>\s*<\/details>/);
    expect(out).not.toContain("<blockquote");
    expect(html("> **Evidence** is what we lack.")).toContain('<blockquote dir="auto">');
    expect(html("> Evidence\n>\n> more")).toContain('<blockquote dir="auto">');
  });

  test("a picture is a link: nothing is loaded from elsewhere", () => {
    const out = html("![chart](https://example.com/c.png)");
    expect(out).not.toContain("<img");
    expect(out).toContain('<a href="https://example.com/c.png" target="_blank" rel="noopener noreferrer">chart</a>');
  });
});

// A longer text is drawn in a second pass, which only happens in a browser: see e2e/attacks.test.ts.
test.each(Object.entries(attacks))("draws %s", (_name, make) => {
  const out = html(make().slice(0, 19_000) + "\n\nlast");
  expect(out).toMatch(/^<div class="prose">/);
  expect(out).toMatch(/last|Show more/);
}, 30_000);
