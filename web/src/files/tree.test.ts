import { describe, expect, test } from "vitest";

import type { FileEntry } from "../api/workspaces.ts";
import { foldersOf, matching, rowsOf, stepOf, typedTo, type Folder } from "./tree.ts";

const entry = (path: string): FileEntry => ({ path: path.replace(/\/$/, ""), kind: path.endsWith("/") ? "folder" : "file" });
const folder = (...paths: string[]): Folder => ({ state: "read", entries: paths.map(entry), more: false });

const folders = new Map<string, Folder>([
  ["", folder("zoo.md", "Garden/", "a10.md", "a9.md", "empty/")],
  ["Garden", folder("Garden/roses.md", "Garden/2024/")],
  ["empty", folder()],
]);
const said = (open: string[], all: ReadonlyMap<string, Folder> = folders) =>
  rowsOf(all, new Set(open)).map((r) => "  ".repeat(r.depth) + (r.kind === "note" ? `(${r.note})` : `${r.folder ? (r.open ? "▾" : "▸") : " "}${r.name} ${r.position}/${r.size}`));

test("folders come first, and numbers are sorted as numbers", () => {
  expect(said([])).toEqual(["▸empty 1/5", "▸Garden 2/5", " a9.md 3/5", " a10.md 4/5", " zoo.md 5/5"]);
});

test("an open folder has its rows below it; what is not there says why", () => {
  expect(said(["Garden", "empty", "Garden/2024"])).toEqual(["▾empty 1/5", "  (empty)", "▾Garden 2/5", "  ▾2024 1/2", "    (reading)", "   roses.md 2/2", " a9.md 3/5", " a10.md 4/5", " zoo.md 5/5"]);
  expect(said([], new Map())).toEqual(["(reading)"]);
  expect(said([], new Map([["", { ...folder("a.md"), more: true }]]))).toEqual([" a.md 1/1", "(more)"]);
  expect(said([], new Map([["", { ...folder(), state: "failed" as const }]]))).toEqual(["(failed)"]);
  expect(said([], new Map([["", { ...folder("a.md"), state: "reading" as const }]])), "read again: the old rows stay").toEqual([" a.md 1/1"]);
});

describe("keys", () => {
  const rows = (...open: string[]) => rowsOf(folders, new Set(open));
  test.each([
    ["ArrowDown", "empty", { focus: "Garden" }],
    ["ArrowUp", "empty", { focus: "empty" }],
    ["End", "empty", { focus: "zoo.md" }],
    ["Home", "zoo.md", { focus: "empty" }],
    ["ArrowDown", "zoo.md", { focus: "zoo.md" }],
    ["ArrowRight", "Garden", { open: "Garden" }],
    ["ArrowRight", "zoo.md", {}],
    ["ArrowLeft", "zoo.md", {}],
    ["ArrowDown", "gone.md", { focus: "empty" }],
    ["PageDown", "empty", { focus: "zoo.md" }],
    ["x", "empty", undefined],
  ])("%s at %s", (key, at, want) => expect(stepOf(key, rows(), at)).toEqual(want));
  test.each([
    ["ArrowRight", "Garden", { focus: "Garden/2024" }],
    ["ArrowLeft", "Garden", { close: "Garden" }],
    ["ArrowLeft", "Garden/roses.md", { focus: "Garden" }],
    ["ArrowRight", "Garden/2024", { open: "Garden/2024" }],
  ])("%s at %s in an open folder", (key, at, want) => expect(stepOf(key, rows("Garden"), at)).toEqual(want));
  test("an open folder without rows keeps the focus", () => expect(stepOf("ArrowRight", rows("empty"), "empty")).toEqual({}));
});

test("letters lead to names", () => {
  const rows = rowsOf(folders, new Set(["Garden"]));
  expect(typedTo("a", rows, "empty")).toBe("a9.md");
  expect(typedTo("a", rows, "a9.md")).toBe("a10.md");
  expect(typedTo("a", rows, "a10.md")).toBe("a9.md");
  expect(typedTo("a9", rows, "a9.md")).toBe("a9.md");
  expect(typedTo("g", rows, "zoo.md")).toBe("Garden");
  expect(typedTo("q", rows, "zoo.md")).toBeUndefined();
});

test("the folders of a file", () => {
  expect(foldersOf("a/b/c.md")).toEqual(["a", "a/b"]);
  expect(foldersOf("c.md")).toEqual([]);
});

test("files are found by their words, the best first", () => {
  const all = ["garden/plan.md", "plans/garden.md", "garden/2024/plan b.md", "x.md"];
  expect(matching("plan", all, 9)).toEqual(["garden/plan.md", "garden/2024/plan b.md", "plans/garden.md"]);
  expect(matching("GARDEN plan", all, 2)).toEqual(["garden/plan.md", "plans/garden.md"]);
  expect(matching(" ", all, 9)).toEqual([]);
});
