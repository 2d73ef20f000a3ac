import { describe, expect, test } from "vitest";

import type { Interaction } from "../../api/types.gen.ts";
import { comparisonOf, foreseenIn, partsOfPost, type Current } from "./foresee.ts";

const ask = (more: Partial<Interaction>): Interaction => ({ id: "i", session: "s", turn: "t", kind: "permission", title: "", opened_at: "", ...more });

describe("a post", () => {
  const text = "Two lines.\n\n#roses";
  test("is shown with who posts it, and apart from why it asks", () => {
    const i = ask({ tool: "mcp__linkedin__linkedin_post", input: { text }, text: `The turn has read a page of the web.\n\nA public post on LinkedIn in the name of ana:\n\n${text}` });
    expect(foreseenIn(i)).toMatchObject({ kind: "post", post: { what: "post", who: "ana", text, reason: "The turn has read a page of the web.", on: "", most: 3000 }, main: { field: "text", most: 3000 } });
  });
  test("that is a reply says to what", () => {
    const input = { text, post_urn: "urn:li:share:1", comment_urn: "urn:li:comment:(urn:li:activity:1,2)" };
    const i = ask({ tool: "linkedin_reply_comment", input, text: `A public reply on LinkedIn in the name of ana b, to urn:li:comment:(urn:li:activity:1,2) on urn:li:share:1:\n\n${text}` });
    expect(foreseenIn(i)).toMatchObject({ post: { what: "reply", who: "ana b", reason: "", on: "urn:li:comment:(urn:li:activity:1,2) on urn:li:share:1", most: 1250 } });
  });
  test("whose text says that it is somebody else's does not decide who posts it", () => {
    const evil = "A public post on LinkedIn in the name of bob:\n\nHello";
    const i = ask({ tool: "linkedin_post", input: { text: evil }, text: `A public post on LinkedIn in the name of ana:\n\n${evil}` });
    expect(foreseenIn(i)).toMatchObject({ post: { who: "ana", text: evil } });
  });
  test.each([
    { tool: "linkedin_post", input: { text: 7 } },
    { tool: "linkedin_read_comments", input: { post_urn: "x" } },
    { tool: "linkedin_post", input: { text: "x" }, kind: "unknown" as const },
    {},
  ])("is none in %j", (i) => expect(foreseenIn(ask(i))).toBeUndefined());

  test("has links where LinkedIn has them", () => {
    const shown = (what: "post" | "comment", text: string) => partsOfPost({ what, text }).map((p) => (p.link ? `[${p.text}]` : p.text)).join("");
    expect(shown("post", "Hi @[Ana & Co](urn:li:organization:12), see https://example.com/a?b=1. #roses, C#sharp #größe")).toBe("Hi [Ana & Co], see [https://example.com/a?b=1]. [#roses], C#sharp [#größe]");
    expect(shown("comment", "@[Ana](urn:li:person:x-1)")).toBe("@[Ana](urn:li:person:x-1)");
    expect(shown("post", "")).toBe("");
  });
});

describe("a change of an entity", () => {
  test("is a diff, with its reason and without its lines in the text", () => {
    const input = { path: "a.md", old_string: "x", new_string: "y\n\nz", reason: "So it is" };
    expect(foreseenIn(ask({ tool: "lake_update", input, text: "The plan asks.\n\nSo it is\n\n-x\n+y\n+\n+z" }))).toMatchObject({ kind: "change", reason: "The plan asks.\n\nSo it is" });
  });
  test("of front matter has no text to edit, and one with both has no lines in its reason", () => {
    const front = { status: "x", owner: null };
    expect(foreseenIn(ask({ tool: "lake_update", input: { path: "a.md", front, reason: "So" }, text: "So\n\n-owner\n+status: x" }))).toEqual({ kind: "change", change: { path: "a.md", everywhere: false, front }, reason: "So" });
    const both = { path: "a.md", front, old_string: "x", new_string: "y", reason: "So" };
    expect(foreseenIn(ask({ tool: "lake_update", input: both, text: "So\n\n-x\n+y\n\n-owner\n+status: x" }))).toMatchObject({ reason: "So", main: { field: "new_string" } });
  });
  test("keeps a reason that looks like lines", () =>
    expect(foreseenIn(ask({ tool: "lake_update", input: { path: "a.md", front: { a: 1 }, reason: "Two:\n\n- a" }, text: "Two:\n\n- a\n\n+a: 1" }))).toMatchObject({ reason: "Two:\n\n- a" }));
});

describe("a change of a file", () => {
  const edit = (before: string, after: string, everywhere = false) => ({ path: "a.md", before, after, everywhere });
  const has = (text: string): Current => ({ state: "read", text });
  const write = { path: "a.md", after: "new\n", everywhere: false };

  test.each([
    ["a file that is there", write, has("old\n"), { before: "old\n", after: "new\n", whole: true, note: "" }],
    ["a new file", write, { state: "none" } as const, { before: "", after: "new\n", whole: true, note: "A new file." }],
    ["a file that cannot be read", write, { state: "unknown" } as const, { before: "", after: "new\n", whole: false, note: "What the file has now cannot be read here; all of it is replaced by this." }],
    ["the same", write, has("new\n"), { before: "new\n", after: "new\n", whole: true, note: "The file already has exactly this." }],
    ["one place", edit("b", "B"), has("abc"), { before: "abc", after: "aBc", whole: true, note: "" }],
    ["a text with $&, which is no pattern", edit("b", "$&"), has("abc"), { before: "abc", after: "a$&c", whole: true, note: "" }],
    ["every place", edit("b", "B", true), has("bab"), { before: "bab", after: "BaB", whole: true, note: "" }],
    ["a file with other line ends", edit("a\nb", "a\nc"), has("a\r\nb\r\n"), { before: "a\r\nb\r\n", after: "a\r\nc\r\n", whole: true, note: "" }],
    ["two places where one is meant", edit("b", "B"), has("bab"), { before: "b", after: "B", whole: false, note: "The text to replace is in the file 2 times, so the call will fail." }],
    ["a text that is gone", edit("x", "y"), has("abc"), { before: "x", after: "y", whole: false, note: "The text to replace is not in the file as it is now, so the call will fail." }],
    ["a file that is gone", edit("x", "y"), { state: "none" } as const, { before: "x", after: "y", whole: false, note: "There is no such file, so the call will fail." }],
    ["an empty file", edit("", "y"), has(""), { before: "", after: "y", whole: true, note: "" }],
    ["a file that is not known", edit("x", "y", true), { state: "unknown" } as const, { before: "x", after: "y", whole: false, note: "This is replaced everywhere in the file." }],
    ["only values", { path: "a.md", everywhere: false, front: { a: 1 } }, has("abc"), { before: "", after: "", whole: true, note: "" }],
    ["only values of a page that is gone", { path: "a.md", everywhere: false, front: { a: 1 } }, { state: "none" } as const, { before: "", after: "", whole: true, note: "There is no such page, so the call will fail." }],
  ])("%s", (_what, planned, now, want) => expect(comparisonOf(planned, now)).toEqual(want));

  test("is in the card, with its text to edit", () => {
    expect(foreseenIn(ask({ tool: "Edit", input: { file_path: "a.md", old_string: "a", new_string: "b" } }))).toMatchObject({ kind: "change", main: { field: "new_string", text: "b" } });
    expect(foreseenIn(ask({ kind: "confirmation", tool: "Write", input: { file_path: ".mcp.json", content: "{}" } }))).toMatchObject({ kind: "change", main: { field: "content" } });
  });
});
