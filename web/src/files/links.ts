// Links between the files of a workspace: those of Markdown, relative to the file they are in, and those of wikis, which
// name a note wherever it is.

/** Where a link leads. */
export type Target =
  /** A file of the workspace, and a heading in it. */
  | { kind: "file"; path: string; heading: string }
  /** A note that is not there; path is where it would be made. */
  | { kind: "missing"; path: string; heading: string }
  | { kind: "heading"; heading: string }
  | { kind: "outside"; href: string };

/** The names of a workspace's files. */
export interface Names {
  /** All that were read, in the order of their paths. */
  all: readonly string[];
  /** There are no others. */
  complete: boolean;
}

/** A wiki link as it is written: [[note#heading|words]], and ![[picture.png]] for what is to be shown in its place. */
export interface Wiki {
  from: number;
  to: number;
  note: string;
  heading: string;
  words: string;
  embedded: boolean;
}

const wiki = /(!?)\[\[([^[\]|#\n]{0,300})(?:#([^[\]|\n]{0,300}))?(?:\|([^[\]\n]{0,300}))?\]\]/g;

/** The wiki links in a text. */
export function wikisIn(text: string): Wiki[] {
  return Array.from(text.matchAll(wiki), (m) => {
    const note = (m[2] ?? "").trim();
    const heading = (m[3] ?? "").trim();
    return { from: m.index, to: m.index + m[0].length, note, heading, words: (m[4] ?? "").trim() || [note, heading].filter((s) => s !== "").join(" › "), embedded: m[1] === "!" };
  }).filter((w) => w.note !== "" || w.heading !== "");
}

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);
const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
const plain = (s: string): string => s.normalize("NFC").toLowerCase();
const hasEnding = (name: string): boolean => /\.[A-Za-z0-9]{1,8}$/.test(name);
const bare = (path: string): string => path.replace(/\.(?:md|markdown)$/i, "");

/** A path without dots in it; undefined if it leads out. */
export function joined(folder: string, to: string): string | undefined {
  const parts: string[] = [];
  for (const part of `${to.startsWith("/") ? "" : folder}${to}`.split("/")) {
    if (part === "..") {
      if (parts.length === 0) return undefined;
      parts.pop();
    } else if (part !== "" && part !== ".") parts.push(part);
  }
  return parts.join("/");
}

/** The files by the ways in which a wiki link may name them. */
function indexOf(names: Names): ReadonlyMap<string, readonly string[]> {
  let index = indexes.get(names);
  if (index) return index;
  const fresh = new Map<string, string[]>();
  const add = (key: string, path: string) => {
    const list = fresh.get(key);
    if (!list) fresh.set(key, [path]);
    else if (!list.includes(path)) list.push(path);
  };
  for (const path of names.all) {
    add(plain(nameOf(path)), path);
    add(plain(nameOf(bare(path))), path);
  }
  indexes.set(names, (index = fresh));
  return index;
}
const indexes = new WeakMap<Names, ReadonlyMap<string, readonly string[]>>();

/** The file that a wiki link means: the one with this path, or with this name, the nearest first. */
export function wikiTarget({ note, heading }: Pick<Wiki, "note" | "heading">, from: string, names: Names): Target {
  if (note === "") return { kind: "heading", heading };
  const wanted = plain(note.replace(/^\/+/, "").replace(/^(?:\.\/)+/, ""));
  const whole = note.startsWith("/") || wanted.includes("/"); // else it may be a name alone
  const found = (indexOf(names).get(nameOf(wanted)) ?? []).filter((p) => {
    const path = plain(p);
    const without = plain(bare(p));
    return path === wanted || without === wanted || path.endsWith(`/${wanted}`) || without.endsWith(`/${wanted}`);
  });
  const best = [...found].sort((a, b) => distance(a, from, wanted, whole) - distance(b, from, wanted, whole) || a.length - b.length || (a < b ? -1 : 1))[0];
  if (best !== undefined) return { kind: "file", path: best, heading };
  const path = joined("", note.includes("/") ? note : folderOf(from) + note);
  return path === undefined || path === "" ? { kind: "outside", href: "" } : { kind: "missing", path: hasEnding(path) ? path : `${path}.md`, heading };
}

/** Exactly the path, then the same folder, then folders above, then any. */
function distance(path: string, from: string, wanted: string, whole: boolean): number {
  if (plain(path) === wanted || plain(bare(path)) === wanted) return whole ? 0 : 2;
  const here = folderOf(from);
  if (folderOf(path) === here) return 1;
  return here.startsWith(folderOf(path)) ? 3 : 4;
}

/** Where a link of Markdown leads. Names that are known decide whether a file is missing. */
export function linkTarget(href: string, from: string, names: Names | undefined): Target {
  if (/^[a-z][a-z0-9+.-]*:|^\/\//i.test(href)) return { kind: "outside", href };
  const at = href.indexOf("#");
  const heading = at < 0 ? "" : decoded(href.slice(at + 1));
  const to = decoded((at < 0 ? href : href.slice(0, at)).split("?", 1)[0] ?? "");
  if (to === "") return { kind: "heading", heading };
  const path = joined(folderOf(from), to);
  if (path === undefined || path === "") return { kind: "outside", href: "" };
  if (!names) return { kind: "file", path, heading };
  const all = new Set(names.all);
  for (const way of hasEnding(path) ? [path] : [path, `${path}.md`]) if (all.has(way)) return { kind: "file", path: way, heading };
  const alike = names.all.find((n) => plain(n) === plain(path) || plain(n) === plain(`${path}.md`));
  if (alike !== undefined) return { kind: "file", path: alike, heading };
  return names.complete && !to.endsWith("/") ? { kind: "missing", path: hasEnding(path) ? path : `${path}.md`, heading } : { kind: "file", path, heading };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** How headings are compared: links name them in different ways. */
export const slug = (heading: string): string => plain(heading).replace(/[^\p{L}\p{N}\s_-]+/gu, "").trim().replace(/[\s-]+/g, "-");
