// Which language a file or a block of code is in, and its grammar, which is loaded when it is first needed. Grammars are
// Lezer's, for the viewer, the editor and what the chat shows alike: they take time in proportion to the text, whatever is in
// it, and stop where they are told to. Those of rarer languages are CodeMirror's older ones, of which the same is true.

import { LanguageSupport, StreamLanguage, type Language, type StreamParser } from "@codemirror/language";

type Load = () => Promise<LanguageSupport>;

const legacy = async (parser: Promise<StreamParser<unknown>>): Promise<LanguageSupport> => new LanguageSupport(StreamLanguage.define(await parser));

const script = (more: { jsx?: boolean; typescript?: boolean }): Load => async () => (await import("@codemirror/lang-javascript")).javascript(more);

const loads: Readonly<Record<string, Load>> = {
  markdown: async () => {
    const [{ markdown, markdownLanguage }, { yamlFrontmatter }] = await Promise.all([import("@codemirror/lang-markdown"), import("@codemirror/lang-yaml")]);
    return yamlFrontmatter({ content: markdown({ base: markdownLanguage, codeLanguages: (info) => inner(info), completeHTMLTags: false, pasteURLAsLink: false }) });
  },
  javascript: script({ jsx: true }),
  typescript: script({ typescript: true }),
  tsx: script({ typescript: true, jsx: true }),
  json: async () => (await import("@codemirror/lang-json")).json(),
  yaml: async () => (await import("@codemirror/lang-yaml")).yaml(),
  css: async () => (await import("@codemirror/lang-css")).css(),
  html: async () => (await import("@codemirror/lang-html")).html(),
  xml: async () => (await import("@codemirror/lang-xml")).xml(),
  python: async () => (await import("@codemirror/lang-python")).python(),
  sql: async () => (await import("@codemirror/lang-sql")).sql(),
  go: async () => (await import("@codemirror/lang-go")).go(),
  rust: async () => (await import("@codemirror/lang-rust")).rust(),
  cpp: async () => (await import("@codemirror/lang-cpp")).cpp(),
  java: async () => (await import("@codemirror/lang-java")).java(),
  shell: () => legacy(import("@codemirror/legacy-modes/mode/shell").then((m) => m.shell)),
  toml: () => legacy(import("@codemirror/legacy-modes/mode/toml").then((m) => m.toml)),
  ini: () => legacy(import("@codemirror/legacy-modes/mode/properties").then((m) => m.properties)),
  ruby: () => legacy(import("@codemirror/legacy-modes/mode/ruby").then((m) => m.ruby)),
  dockerfile: () => legacy(import("@codemirror/legacy-modes/mode/dockerfile").then((m) => m.dockerFile)),
  diff: () => legacy(import("@codemirror/legacy-modes/mode/diff").then((m) => m.diff)),
  swift: () => legacy(import("@codemirror/legacy-modes/mode/swift").then((m) => m.swift)),
  kotlin: () => legacy(import("@codemirror/legacy-modes/mode/clike").then((m) => m.kotlin)),
  csharp: () => legacy(import("@codemirror/legacy-modes/mode/clike").then((m) => m.csharp)),
  lua: () => legacy(import("@codemirror/legacy-modes/mode/lua").then((m) => m.lua)),
  r: () => legacy(import("@codemirror/legacy-modes/mode/r").then((m) => m.r)),
  powershell: () => legacy(import("@codemirror/legacy-modes/mode/powershell").then((m) => m.powerShell)),
  latex: () => legacy(import("@codemirror/legacy-modes/mode/stex").then((m) => m.stex)),
};

/** Other names of a language: endings of files, and what code blocks are marked with. */
const aliases: Readonly<Record<string, string>> = {
  md: "markdown", mdx: "markdown", mkd: "markdown",
  js: "javascript", jsx: "javascript", mjs: "javascript", cjs: "javascript", node: "javascript",
  ts: "typescript", mts: "typescript", cts: "typescript",
  jsonc: "json", json5: "json", ndjson: "json", jsonl: "json", webmanifest: "json", geojson: "json",
  yml: "yaml",
  scss: "css", less: "css",
  htm: "html", xhtml: "html", vue: "html", svelte: "html",
  svg: "xml", rss: "xml", atom: "xml", plist: "xml", gpx: "xml", kml: "xml",
  py: "python", pyi: "python", python3: "python",
  psql: "sql", postgresql: "sql", mysql: "sql", sqlite: "sql",
  golang: "go",
  rs: "rust",
  c: "cpp", h: "cpp", cc: "cpp", cxx: "cpp", hpp: "cpp", hh: "cpp", "c++": "cpp", ino: "cpp",
  sh: "shell", bash: "shell", zsh: "shell", console: "shell", "shell-session": "shell", ksh: "shell",
  conf: "ini", cfg: "ini", properties: "ini", env: "ini",
  rb: "ruby", gemfile: "ruby", rakefile: "ruby",
  docker: "dockerfile", containerfile: "dockerfile",
  patch: "diff",
  kt: "kotlin", kts: "kotlin",
  cs: "csharp", "c#": "csharp",
  rlang: "r",
  ps1: "powershell", pwsh: "powershell",
  tex: "latex", sty: "latex",
};

/** The language of a name: a code block's mark, or a file's ending; undefined if there is none. */
export function languageNamed(name: string): string | undefined {
  const n = name.toLowerCase();
  const known = Object.hasOwn(aliases, n) ? aliases[n] : n;
  return known !== undefined && Object.hasOwn(loads, known) ? known : undefined;
}

/** The language of a file. */
export function languageOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  return dot >= 0 ? languageNamed(name.slice(dot + 1)) : languageNamed(name);
}

const loaded = new Map<string, LanguageSupport>();
const loading = new Map<string, Promise<LanguageSupport>>();

/** Loads a language. It is loaded once; if that fails, it is tried again the next time. */
export function loadLanguage(name: string): Promise<LanguageSupport> {
  const there = loaded.get(name);
  if (there) return Promise.resolve(there);
  let now = loading.get(name);
  const load = Object.hasOwn(loads, name) ? loads[name] : undefined;
  if (!load) return Promise.reject(new Error(`there is no language ${name}`));
  if (!now) {
    now = load().then(
      (l) => {
        loaded.set(name, l);
        return l;
      },
      (cause: unknown) => {
        loading.delete(name);
        throw cause;
      },
    );
    loading.set(name, now);
  }
  return now;
}

/** The language of a code block inside Markdown, if it was loaded before. It is requested for the next time. */
function inner(info: string): Language | null {
  const name = languageNamed(/^[\w+#-]*/.exec(info)?.[0] ?? "");
  if (name === undefined || name === "markdown") return null;
  const there = loaded.get(name);
  if (!there) void loadLanguage(name).catch(() => undefined);
  return there?.language ?? null;
}

/** Requests the languages of the code blocks in a text, so that they are there when it is drawn. */
export async function loadInner(text: string): Promise<void> {
  const names = new Set(Array.from(text.slice(0, 200_000).matchAll(/^ {0,3}(?:```+|~~~+)[ \t]*([\w+#-]+)/gm), (m) => languageNamed(m[1] ?? "")));
  await Promise.all([...names].slice(0, 12).map((n) => (n && n !== "markdown" ? loadLanguage(n).catch(() => undefined) : undefined)));
}
