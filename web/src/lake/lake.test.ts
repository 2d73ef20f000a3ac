// What the list of a lake knows: words, filters, pages, and that a late answer changes nothing.

import { beforeEach, describe, expect, test } from "vitest";

import { createClient, type Fetch } from "../api/client.ts";
import { titleIn } from "./entities.ts";
import { choicesOf, facetOf, Lake, marked } from "./lake.ts";

interface Asked {
  path: string;
  query: URLSearchParams;
  signal: AbortSignal | undefined;
  answer(body: unknown, status?: number): void;
}

let asked: Asked[];
let lake: Lake;

const settle = () => new Promise<void>((done) => setImmediate(done));
const now = () => lake.store.getState();
const entity = (path: string, more: object = {}) => ({ path, kind: "note", title: path, tags: [], version: "v", size: 1, ...more });
const listed = () => now().entities.map((e) => e.path);
/** The requests that wait, without those for the choices. */
const finds = () => asked.filter((a) => a.query.get("limit") !== "500");
const choosing = () => asked.filter((a) => a.query.get("limit") === "500");
const last = (list: Asked[]): Asked => {
  const a = list.at(-1);
  if (!a) throw new Error("nothing was asked");
  return a;
};

beforeEach(() => {
  asked = [];
  const fetch: Fetch = (input, init) =>
    new Promise((done, fail) => {
      const url = new URL(input, "http://parley.test/");
      const signal = init?.signal ?? undefined;
      signal?.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError")));
      asked.push({ path: url.pathname, query: url.searchParams, signal, answer: (body, status = 200) => done(new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } })) });
    });
  lake = new Lake(createClient("http://parley.test/", fetch), { app: "major", name: "lake" });
});

describe("the list", () => {
  test("is read with the choices, and page by page", async () => {
    const read = lake.refresh();
    expect(now().state).toBe("reading");
    expect(Object.fromEntries(last(finds()).query)).toEqual({ app: "major", workspace: "lake", limit: "100" });
    last(finds()).answer({ entities: [entity("a"), entity("b")], next: "b" });
    last(choosing()).answer({ entities: [entity("a", { owner: "petra" }), entity("b", { owner: "petra", tags: ["x"] })], next: "b" });
    await settle();
    last(choosing()).answer({ entities: [entity("c", { owner: "otto" })] });
    await read;
    expect([now().state, listed(), now().next, now().size]).toEqual(["read", ["a", "b"], "b", 3]);
    expect(now().choices?.owner).toEqual([{ value: "petra", n: 2 }, { value: "otto", n: 1 }]);

    void lake.more();
    void lake.more(); // a second press asks for nothing
    expect(finds()).toHaveLength(2);
    expect([now().state, last(finds()).query.get("after")]).toEqual(["more", "b"]);
    last(finds()).answer({ entities: [entity("c")] });
    await settle();
    expect([now().state, listed(), now().next]).toEqual(["read", ["a", "b", "c"], ""]);
    await lake.more();
    expect(finds(), "there is no further page").toHaveLength(2);
  });

  test("is searched by words and narrowed by facets, and both are forgotten at once", async () => {
    lake.search("release pricing");
    expect([last(finds()).path, last(finds()).query.get("q")]).toEqual(["/v1/entities/search", "release pricing"]);
    last(finds()).answer({ hits: [{ ...entity("a"), score: 2, snippet: "the **release**" }], partial: true });
    await settle();
    expect([listed(), now().partial]).toEqual([["a"], true]);
    lake.only("status", "active");
    expect([last(finds()).query.get("q"), last(finds()).query.get("status")]).toEqual(["release pricing", "active"]);
    lake.only("status", "");
    expect(last(finds()).query.has("status")).toBe(false);
    lake.only("tag", "x");
    lake.all();
    expect([last(finds()).path, last(finds()).query.has("tag"), now().words]).toEqual(["/v1/entities", false, ""]);
    const n = finds().length;
    lake.search("");
    expect(finds(), "the same words are not searched again").toHaveLength(n);
  });

  test("lists all with one value, whatever narrowed it before", () => {
    lake.search("release");
    lake.only("status", "active");
    lake.just("owner", "Ben Okafor");
    expect(last(finds()).path).toBe("/v1/entities");
    expect(Object.fromEntries(last(finds()).query)).toEqual({ app: "major", workspace: "lake", owner: "Ben Okafor", limit: "100" });
    expect(now().words).toBe("");
  });

  test("a late answer to older words changes nothing", async () => {
    lake.search("old");
    const old = last(finds());
    lake.search("new");
    expect(old.signal?.aborted).toBe(true);
    last(finds()).answer({ hits: [entity("new")] });
    old.answer({ hits: [entity("old")] });
    await settle();
    expect([now().state, listed()]).toEqual(["read", ["new"]]);
  });

  test("a page that comes after the filter was changed is not added", async () => {
    void lake.refresh();
    last(finds()).answer({ entities: [entity("a")], next: "a" });
    await settle();
    void lake.more();
    const page = last(finds());
    lake.only("kind", "role");
    page.answer({ entities: [entity("b")] });
    last(finds()).answer({ entities: [entity("r")] });
    await settle();
    expect(listed()).toEqual(["r"]);
  });

  test("says what is wrong, keeps what it has, and goes on where it stopped", async () => {
    void lake.refresh();
    last(finds()).answer({ entities: [entity("a")], next: "a" });
    await settle();
    void lake.more();
    last(finds()).answer({ error: { code: "unavailable", message: "the lake is being read", hint: "try again" } }, 503);
    await settle();
    expect([now().state, now().error?.message, listed()]).toEqual(["failed", "the lake is being read", ["a"]]);
    void lake.more();
    expect([now().state, now().error, last(finds()).query.get("after")]).toEqual(["more", undefined, "a"]);
  });

  test("a failed reading of another list does not show the one before as its result", async () => {
    void lake.refresh();
    last(finds()).answer({ entities: [entity("a")], next: "a" });
    await settle();
    lake.search("b");
    last(finds()).answer({ error: { code: "internal", message: "it broke" } }, 500);
    await settle();
    expect([now().state, listed(), now().next]).toEqual(["failed", [], ""]);
  });

  test("is read again as far as it is shown, quietly, and stays when that fails", async () => {
    await lake.reread();
    expect(finds(), "nobody has listed it yet").toHaveLength(0);
    void lake.refresh();
    last(finds()).answer({ entities: [entity("a"), entity("b")], next: "b" });
    await settle();
    void lake.more();
    void lake.reread(); // when the page is there
    expect(finds()).toHaveLength(2);
    last(finds()).answer({ entities: [entity("c")], next: "c" });
    await settle();
    expect([now().state, last(finds()).query.has("after")]).toEqual(["read", false]);
    last(finds()).answer({ entities: [entity("a"), entity("aa")], next: "aa" });
    await settle();
    expect(listed()).toEqual(["a", "b", "c"]);
    last(finds()).answer({ entities: [entity("b"), entity("c")], next: "c" });
    await settle();
    expect([listed(), now().next, now().state]).toEqual([["a", "aa", "b", "c"], "c", "read"]);
    void lake.reread();
    last(finds()).answer({ error: { code: "unavailable", message: "the lake is being read" } }, 503);
    await settle();
    expect([listed().length, now().state, now().error]).toEqual([4, "read", undefined]);
    void lake.reread();
    void lake.more(); // the page is added first
    expect(last(finds()).query.get("after")).toBe("c");
    last(finds()).answer({ entities: [entity("d")] });
    await settle();
    expect([listed().length, last(finds()).query.has("after"), now().state]).toEqual([5, false, "read"]);
  });

  test("that nobody sees any more stops reading", async () => {
    void lake.refresh();
    lake.stop();
    await settle();
    expect(asked.map((a) => a.signal?.aborted)).toEqual([true, true]);
    expect(now().state, "it is no failure").toBe("reading");
  });
});

test("choices are those that most entities have first; what is empty is none", () => {
  expect(choicesOf([{ kind: "note", tags: ["b", "a"] }, { kind: "role", owner: "", status: "draft", tags: ["a"] }, { kind: "note", tags: [] }])).toEqual({
    kind: [{ value: "note", n: 2 }, { value: "role", n: 1 }],
    status: [{ value: "draft", n: 1 }],
    owner: [],
    tag: [{ value: "a", n: 2 }, { value: "b", n: 1 }],
  });
});

test("properties that entities are told apart by are facets, whatever their case", () => {
  expect(["Kind", "status", "OWNER", "tags", "tag", "title", "updated"].map(facetOf)).toEqual(["kind", "status", "owner", "tag", "tag", undefined, undefined]);
});

describe("a snippet", () => {
  const shown = (s: string) => marked(s).map((p) => (p.found ? `<${p.text}>` : p.text)).join("");
  test.each([
    ["", ""],
    ["plain", "plain"],
    ["the **release** of **March**", "the <release> of <March>"],
    ["**first** then", "<first> then"],
    ["see [[docs/pricing|our pricing]] and [[pricing]]", "see our pricing and pricing"],
    ["see [our **pricing**](docs/pricing.md)", "see our <pricing>"],
    ["[[docs/**pricing**|prices]] here", "prices here"],
    ["## A heading\n`code` text", "A heading\ncode text"],
    ["cut in a link [[docs/pricing|our", "cut in a link our"],
    ["an odd ** sign", "an odd  sign"],
  ])("%j reads %j", (snippet, text) => expect(shown(snippet)).toBe(text));
});

test("the title of a note is that of its properties, its first heading, or its file", () => {
  expect(titleIn("---\nkind: note\ntitle: Pricing\n---\n# Other\n", "docs/p.md")).toBe("Pricing");
  expect(titleIn("# Heading #\n\ntext", "docs/p.md")).toBe("Heading");
  expect(titleIn("text", "docs/pricing.MD")).toBe("pricing");
  expect([...titleIn(`# ${"😀".repeat(300)}`, "p.md")]).toHaveLength(200);
});
