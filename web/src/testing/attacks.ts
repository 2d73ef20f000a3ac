// Answers designed to break the page that shows them: deep, wide, long, or expensive to parse.

const deep = (): string => {
  let s = "";
  for (let i = 0; i < 400; i++) s += `${"  ".repeat(i)}- a\n`;
  return s;
};
const lines = (n: number, line: (i: number) => string): string => Array.from({ length: n }, (_, i) => line(i)).join("");
const runs = (): string => lines(400, (i) => `a${"`".repeat(i)}`);

/** By name: each ends with a word that has to be on the page. */
export const attacks: Readonly<Record<string, () => string>> = {
  "quotes in quotes": () => `${">".repeat(5000)} end`,
  "quotes with spaces": () => `${"> ".repeat(5000)} end`,
  "quotes in what may be code": () => `<pre>\n\`\`\`\n</pre>\n\n${"> ".repeat(5000)} end`,
  "lists in a line": () => `${"- ".repeat(5000)} end`,
  "numbered lists in a line": () => `${"1. ".repeat(5000)} end`,
  "lists and quotes in a line": () => `${"- > ".repeat(5000)} end`,
  "lists over lines": () => `${deep()}\nend`,
  "definitions of links": () => `${lines(2000, (i) => `[see ${i}]\n\n`)}end\n\n${lines(2000, (i) => `[see ${i}]: https://example.com/${i}\n`)}`,
  "definitions that all use": () => `${lines(500, () => `${lines(20, (i) => `[${i}]`)}\n\n`)}end\n\n${lines(20, (i) => `[${i}]: https://example.com/${"x".repeat(900)}\n`)}`,
  "notes that refer to each other": () => `${lines(1000, (i) => `a[^${i}]\n\n`)}end\n\n${lines(1000, (i) => `[^${i}]: b[^${(i + 1) % 1000}]\n\n`)}`,
  "emphasis that is never closed": () => `${"*a **a _b ".repeat(4000)} end`,
  "emphasis in emphasis": () => `${"*a ".repeat(4000)}${"b* ".repeat(4000)} end`,
  "emphasis in words": () => `${"*a_ ".repeat(20_000)} end`,
  "brackets": () => `${"[".repeat(20_000)}${"]".repeat(20_000)} end`,
  "links that are never closed": () => `${"[a](".repeat(10_000)} end`,
  "many links": () => `${"[a](b)".repeat(10_000)} end`,
  "pictures": () => `${"![".repeat(10_000)} end`,
  "a picture of a million characters": () => `![x](data:image/png;base64,${"A".repeat(1_000_000)}) end`,
  "thousands of backticks": () => `end\n\n${"`".repeat(20_000)} x`,
  "runs of backticks, each another length": () => `${runs()} end`,
  "tags": () => `${"<a ".repeat(20_000)} end`,
  "a long table": () => `| a | b |\n|---|---|\n${lines(5000, (i) => `| ${i} | **2** |\n`)}\nend`,
  "a wide table": () => `${"|a".repeat(3000)}|\n${"|-".repeat(3000)}|\n${"|b".repeat(3000)}|\n\nend`,
  "a long list": () => `${lines(20_000, (i) => `- ${i}\n`)}\nend`,
  "a list with a long item": () => `- ${"word ".repeat(20_000)}\n- b\n\nend`,
  "many headings": () => `${"# a\n".repeat(20_000)}\nend`,
  "a long block of code": () => `end\n\n\`\`\`js\n${"let x = 1;\n".repeat(100_000)}\`\`\``,
  "a line of code without an end": () => `end\n\n\`\`\`\n${"x".repeat(2_000_000)}`,
  "a word without an end": () => `end ${"x".repeat(2_000_000)}`,
  "millions of characters": () => `end ${"word ".repeat(600_000)}`,
  "line ends": () => `${"a\n".repeat(100_000)}end`,
  "empty lines": () => `a${"\n".repeat(500_000)}end`,
  "marks on one letter": () => `a${"\u0301".repeat(50_000)} end`,
  "overrides of direction": () => `${"\u202e".repeat(5000)}dne end`,
  "characters that nobody sees": () => `${"\u200b\u2060\ufeff".repeat(50_000)}end`,
  "an unpaired half of a character": () => `${"\ud83d ".repeat(20_000)}\u0000end`,
};
