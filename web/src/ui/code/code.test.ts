import { describe, expect, test } from "vitest";

import { highlighted, most } from "./highlight.ts";
import { languageNamed, languageOf, loadLanguage } from "./languages.ts";

test.each([
  ["notes/today.md", "markdown"],
  ["a.b/Dockerfile", "dockerfile"],
  ["x/.env", "ini"],
  ["main.GO", "go"],
  ["a.tsx", "tsx"],
  ["noending", undefined],
  ["a.exe", undefined],
  ["a.constructor", undefined],
])("%s is %s", (path, want) => expect(languageOf(path)).toBe(want));

test.each(["bash", "C++", "yml", "json5", "Python"])("a code block may be marked with %s", (name) => expect(languageNamed(name)).toBeDefined());

const kindsIn = async (code: string, language: string) => (await highlighted(code, language)).filter((p) => p.kind !== "").map((p) => `${p.kind.replace("code-", "")} ${p.text}`);

describe("code gets colours", () => {
  test.each([
    ["go", 'func main() { return "x" } // y', ["keyword func", "name main", "keyword return", 'string "x"', "comment // y"]],
    ["python", "def f(a): return 1", ["keyword def", "name f", "keyword return", "number 1"]],
    ["yaml", "a: b # c", ["property a", "comment # c"]],
    ["shell", 'echo "x" # y', ['string "x"', "comment # y"]],
    ["diff", "+a\n-b\n", ["string +a", "deleted -b"]],
  ])("in %s", async (language, code, want) => expect(await kindsIn(code, language)).toEqual(expect.arrayContaining(want)));

  test("in all languages, and loses nothing", async () => {
    const code = "# x\n\n```go\nfunc\n```\nif (a < \"b\") { return 'c'; } /* d */ <e f=\"g\">h</e> -- i\n";
    for (const name of ["markdown", "javascript", "typescript", "tsx", "json", "yaml", "css", "html", "xml", "python", "sql", "go", "rust", "cpp", "java", "shell", "toml", "ini", "ruby", "dockerfile", "diff", "swift", "kotlin", "csharp", "lua", "r", "powershell", "latex"]) {
      expect((await highlighted(code, name)).map((p) => p.text).join(""), name).toBe(code);
    }
  });

  test("up to a limit, and soon, whatever it says", async () => {
    for (const [name, evil] of [["javascript", "a(".repeat(most)], ["markdown", `${"> ".repeat(5000)}\n${"[".repeat(5000)}\n`.repeat(4)], ["html", "<a ".repeat(most)], ["json", "[".repeat(most)]] as const) {
      const parts = await highlighted(evil, name);
      expect(parts.map((p) => p.text).join("")).toBe(evil);
    }
  }, 60_000);
});

test("a language that is none", () => expect(loadLanguage("__proto__")).rejects.toThrow("there is no language"));
