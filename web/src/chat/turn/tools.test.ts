import { describe, expect, test } from "vitest";

import { plannedIn, tasksOf, toolResult } from "./tools.ts";
import { callOf, foundBy } from "./words.ts";

test.each([
  ["Read", { file_path: "garden/roses.md" }, "Reads garden/roses.md"],
  ["Read", { file_path: "a.md", offset: 2001, limit: 500 }, "Reads a.md, lines 2,001 to 2,500"],
  ["Read", { file_path: "a.md", offset: 7 }, "Reads a.md, from line 7"],
  ["Write", { file_path: "a.md", content: "x" }, "Writes a.md"],
  ["Edit", { file_path: "a.md", old_string: "a", new_string: "", replace_all: true }, "Edits a.md, everywhere in it"],
  ["NotebookEdit", { notebook_path: "n.ipynb", new_source: "", edit_mode: "delete" }, "Removes a cell from n.ipynb"],
  ["NotebookEdit", { notebook_path: "n.ipynb", new_source: "1" }, "Edits a cell of n.ipynb"],
  ["Glob", { pattern: "**/*.md", path: "garden" }, "Looks for files named **/*.md in garden"],
  ["Grep", { pattern: "Berlin", glob: "*.md" }, "Searches for “Berlin” in files named *.md"],
  ["WebFetch", { url: "https://example.com/", prompt: "what?" }, "Opens https://example.com/"],
  ["WebSearch", { query: "roses" }, "Searches the web for “roses”"],
  ["TodoWrite", { todos: [{ content: "Read", status: "completed" }, { content: "Write", status: "pending" }] }, "Keeps a list of tasks: 1 of 2 done"],
  // Tools of other people with the same names.
  ["Read", { id: 7 }, "Read"],
  ["Write", { file_path: "a.md" }, "Write: a.md"],
  ["Task", { description: "Find it", prompt: "Find the spec.", subagent_type: "finder", run_in_background: true }, "Gives a task to finder: Find it"],
  ["Task", { prompt: "Read Notion.", subagent_type: "researcher" }, "Gives a task to researcher: Read Notion."],
  ["Task", { id: 7 }, "Task"],
  ["AgentOutputTool", { agentId: "lead/finder#2" }, "Asks what finder#2 has found"],
  ["AskUserQuestion", { questions: "Which tea?" }, "Asks: Which tea?"],
  ["AskUserQuestion", { questions: [{ question: "Which tea?" }, null, { question: "With milk?" }] }, "Asks: Which tea? With milk?"],
  ["Grep", null, "Grep"],
  ["toString", { file_path: "a" }, "ToString: a"],
])("%s %j", (tool, input, want) => expect(callOf(tool, input)).toBe(want));

test.each([
  ["Read", "     1\t# Roses\n     2\t\n     3\tred", "3 lines"],
  ["Read", "     9\tred\n(a.md has 40 lines; these are 9 to 9. Read more with offset 10.)", "1 line"],
  ["Read", "(a.md is empty.)", "(a.md is empty.)"],
  ["Glob", "a.md\nb.md\n", "2 files"],
  ["Glob", "a.md\nb.md\n(40 more; use a narrower pattern or path)", "42 files"],
  ["Glob", "garden/notes (old).md\nb (c)", "2 files"],
  ["Glob", "a.md", "a.md"],
  ["Grep", "a.md:1:x\n--\nb.md:2:x", "2 hits"],
  ["Grep", "a.md\nb.md\n(Rows 1 to 2 of 90. More with offset 2.)", "90 hits"],
  ["Grep", "Nothing matches.", "Nothing matches."],
  ["Write", "a.md was written.", "a.md was written."],
])("%s found %j", (tool, output, want) => expect(foundBy(tool, output)).toBe(want));

test("a tool that has no such words leaves its output to say it", () => expect(toolResult("constructor", "x\ny")).toBe(""));

describe("a change that a call would make", () => {
  test("of a whole file", () => expect(plannedIn("Write", { file_path: "a.md", content: "x" })).toEqual({ path: "a.md", after: "x", everywhere: false }));
  test("of an entity", () => expect(plannedIn("lake_create", { path: "a.md", content: "x", reason: "r" })).toEqual({ path: "a.md", after: "x", everywhere: false }));
  test("of a part of an entity", () =>
    expect(plannedIn("lake_update", { path: "a.md", old_string: "x", new_string: "y", reason: "r" })).toEqual({ path: "a.md", before: "x", after: "y", everywhere: false }));
  test("of front matter", () => expect(plannedIn("lake_update", { path: "a.md", front: { status: "x", owner: null }, reason: "r" })).toEqual({ path: "a.md", everywhere: false, front: { status: "x", owner: null } }));
  test("of front matter and text", () =>
    expect(plannedIn("lake_update", { path: "a.md", old_string: "x", new_string: "y", front: { a: 1 } })).toEqual({ path: "a.md", before: "x", after: "y", everywhere: false, front: { a: 1 } }));
  test.each([{ content: "x", front: { a: 1 } }, { content: "x", old_string: "y", new_string: "z" }, { front: {} }, { old_string: "", new_string: "x" }, { new_string: "x", front: { a: 1 } }, {}])(
    "of an entity is none in %j, which the tool refuses",
    (input) => expect(plannedIn("lake_update", { path: "a.md", reason: "r", ...input })).toBeUndefined(),
  );
  test("of a text", () => expect(plannedIn("Edit", { file_path: "a.md", old_string: "x", new_string: "y" })).toEqual({ path: "a.md", before: "x", after: "y", everywhere: false }));
  test.each([["Write", { file_path: "a.md", content: 7 }], ["Edit", { file_path: "a.md", new_string: "y" }], ["Read", { file_path: "a.md", content: "x" }], [undefined, { file_path: "a.md", content: "x" }], ["Write", null]])("is none in %s %j", (tool, input) =>
    expect(plannedIn(tool, input)).toBeUndefined(),
  );
});

test("tasks of another form are left out", () => {
  expect(tasksOf("TodoWrite", { todos: [{ content: "a", status: "pending" }, { content: 1, status: "pending" }, null, { content: "b", status: "soon" }] })).toEqual([{ text: "a", status: "pending" }]);
  expect(tasksOf("TodoWrite", { todos: "a" })).toBeUndefined();
  expect(tasksOf("Todo", { todos: [] })).toBeUndefined();
});
