import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import { Markdown } from "./markdown.tsx";
import { finished } from "./unfinished.ts";

const seen = (text: string, streaming: boolean) =>
  renderToStaticMarkup(<Markdown text={text} streaming={streaming} />)
    .replace(/<(pre|button)[\s\S]*?<\/\1>/g, "")
    .replace(/<[^>]+>/g, "\n");

const answer = `# What was decided

**Google OAuth** is the *only* way in, with \`authlib\` on the server; see [the thread](https://example.com/t?x=1) of ~~Monday~~ Tuesday.

1. First **of all**, the client
2. then \`react-oauth/google\`
   - and what is **under** it

| Source | Says |
|:---|---:|
| Slack | **OAuth** |
| Notion | \`password\` |

> The *newest* wins.

---

\`\`\`js
const x = "**";
\`\`\`

Done, with ***both***.
`;

test("no mark is seen at any moment of an answer that is written, and each word when it is there", () => {
  for (let n = 1; n <= answer.length; n++) {
    const text = seen(answer.slice(0, n), true);
    expect(text, `after ${JSON.stringify(answer.slice(Math.max(0, n - 30), n))}`).not.toMatch(/[*`~|[\]]|^\s*#|^\s*>|https:|-{2,}/m);
  }
  expect(seen(answer.slice(0, answer.indexOf("the thread") + 6), true)).toContain("the th");
  expect(seen(answer.slice(0, answer.indexOf("Slack |") + 3), true)).toContain("Sla");
}, 60_000);

test("at its end a text is as it was written", () => {
  expect(seen("a * b, 2 ** 3 and [x]", false)).toContain("a * b, 2 ** 3 and [x]");
});

test("a text that was cut off for good shows no open marks, and keeps its last character", () => {
  const cut = (text: string) => renderToStaticMarkup(<Markdown text={text} partial />);
  expect(cut("**Go with")).toContain("<strong>Go with</strong>");
  expect(cut("Done!")).toContain("Done!");
  expect(cut("- one\n- see [the thr")).not.toMatch(/\[/);
});

test.each([
  ["12", ""],
  ["12 men", "12 men"],
  ["a\n\n-", "a"],
  ["a\n\n- b", "a\n\n- b"],
  ["```js\nx\n```", "```js\nx\n```"],
])("%j is shown as %j", (text, shown) => expect(finished(text)).toBe(shown));
