// A turn that changes files, and permissions for calls that would, as logs for a Stage.

import type { Event } from "../src/api/types.gen.ts";
import { asking } from "./logs.ts";

const usage = { input_tokens: 4200, output_tokens: 310 };

const roses = `--- a/garden/roses.md
+++ b/garden/roses.md
@@ -1,7 +1,8 @@
 # Roses
 
-Pruned in February. The climbing rose needs a new trellis.
+Pruned in March. The climbing rose has a new trellis since Saturday.
 
 - Compassion, by the gate
-- Graham Thomas
+- Graham Thomas, moved to the sunny side
+- New Dawn, ordered from the nursery
 - Iceberg
`;

const plan = `--- a/garden/plan.md
+++ b/garden/plan.md
@@ -0,0 +1,6 @@
+# Plan for the garden
+
+1. Water the new rose every evening.
+2. Look for aphids on Sunday.
+
+See [[roses]] and [the shop's page](https://example.com/roses).
`;

const long = `--- a/shopping list for the whole of the summer, with everything that the garden needs.md
+++ b/shopping list for the whole of the summer, with everything that the garden needs.md
@@ -41,4 +41,3 @@
 - twine
-- a very long line that says what is to be bought, from whom, for how much, and why it is needed, so that it takes more than one line on every screen
 - compost
 - gloves
`;

/** A conversation whose agent reads, keeps a list of tasks and changes three files. */
export function gardening(): Event[] {
  const session = "S-garden";
  const turn = "T-garden";
  const begun = Date.now() - 60_000;
  const model = "scripted/notes";
  const at = { turn, agent: "assistant" };
  const call = (id: string, name: string, input: unknown, output: string, saved?: unknown[], effect = saved ? "idempotent" : "read") => [
    { ...at, type: "tool.requested" as const, data: { call: id, name, input } },
    { ...at, type: "tool.started" as const, data: { call: id, name, input, effect, deadline: new Date(begun + 120_000).toISOString(), attempt: 1 } },
    ...(saved ? [{ ...at, type: "files.announced" as const, data: { call: id, paths: saved.map((f) => (f as { path: string }).path) } }, { ...at, type: "files.saved" as const, data: { call: id, files: saved } }] : []),
    { ...at, type: "tool.ended" as const, data: { call: id, name, outcome: "ok", output, took_ms: 12 } },
  ];
  const long_ = "shopping list for the whole of the summer, with everything that the garden needs.md";
  const answer = "The rose notes are up to date, and [the plan](garden/plan.md) says what is next. I took the trellis off the shopping list.";
  const read = Array.from({ length: 40 }, (_, i) => `${String(i + 1).padStart(6)}\tline ${i + 1} of the notes about roses`).join("\n");
  const events: { turn?: string; agent?: string; type: Event["type"]; data: unknown }[] = [
    { type: "session.created", data: { app: "notes", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 1, workspace: "shared/petra" } },
    { turn, type: "turn.started", data: { origin: "user", message: { role: "user", parts: [{ type: "text", text: "Bring my rose notes up to date: the trellis is done, and I ordered a New Dawn." }] }, budgets: {}, app: "d", by: "local", client: "api" } },
    { ...at, type: "agent.started", data: { name: "assistant" } },
    { ...at, type: "model.started", data: { call: "m1", model, context: "x", reserved: usage } },
    { ...at, type: "model.replied", data: { call: "m1", model, parts: [{ type: "text", text: "I look at what the notes say about roses." }, { type: "tool_call", call: "c1", name: "Grep", input: { pattern: "rose", glob: "*.md" } }], usage } },
    ...call("c1", "Grep", { pattern: "rose", glob: "*.md" }, "garden/roses.md\ngarden/2024.md\nshopping.md"),
    ...call("c2", "Read", { file_path: "garden/roses.md" }, read),
    ...call("c3", "TodoWrite", { todos: [{ content: "Read the notes about roses", status: "completed", activeForm: "Reading" }, { content: "Bring them up to date", status: "in_progress", activeForm: "Writing" }, { content: "Write a plan", status: "pending", activeForm: "Planning" }] }, "The list was kept."),
    ...call("c4", "Edit", { file_path: "garden/roses.md", old_string: "Pruned in February.", new_string: "Pruned in March." }, "garden/roses.md was changed. It now has:\n     1\t# Roses\n     2\t\n     3\tPruned in March.", [{ path: "garden/roses.md", before: "d1", after: "d2", diff: roses, added: 3, removed: 2 }]),
    ...call("c5", "Write", { file_path: "garden/plan.md", content: "# Plan for the garden\n" }, "garden/plan.md was created.", [{ path: "garden/plan.md", after: "d3", diff: plan, added: 6 }]),
    ...call("c6", "Edit", { file_path: long_, old_string: "a", new_string: "" }, `${long_} was changed.`, [{ path: long_, before: "d4", after: "d5", diff: long, removed: 1 }]),
    ...call("c7", "NotebookEdit", { notebook_path: "data/rain.ipynb", cell_id: "a", new_source: "1" }, "data/rain.ipynb was changed.", [{ path: "data/rain.ipynb", before: "d6", after: "d7", added: 1204, removed: 980 }]),
    { ...at, type: "model.started", data: { call: "m2", model, context: "x", reserved: usage } },
    { ...at, type: "model.replied", data: { call: "m2", model, parts: [{ type: "text", text: answer }], usage } },
    { turn, type: "turn.completed", data: { response: { message: answer }, usage } },
  ];
  return events.map((e, i) => ({ session, seq: i + 1, time: new Date(begun + i * 400).toISOString(), ...e }) as Event);
}

const post = "The climbing rose has its trellis at last. 🌹\n\nThree things that I learned:\n1. Measure twice.\n2. Buy twine before you begin.\n3. Ask the neighbour for the long ladder.\n\nThanks to @[Rosarium Sangerhausen](urn:li:organization:1234) for the advice: https://example.com/climbing-roses\n\n#gardening #roses";
const choices = ["allow", "allow_session", "deny"];

/** Permissions for calls that would change a file or post something. */
export const foreseen: readonly Event[][] = [
  asking("write", "Write down what I need", { kind: "permission", tool: "Write", title: "Write shopping.md?", detail: "shopping.md", input: { file_path: "shopping.md", content: "# Shopping\n\n- twine\n- compost\n- a long ladder\n" }, choices }),
  asking("edit", "The trellis is done", { kind: "permission", tool: "Edit", title: "Edit garden/roses.md?", detail: "garden/roses.md", input: { file_path: "garden/roses.md", old_string: "Pruned in February. The climbing rose needs a new trellis.", new_string: "Pruned in March. The climbing rose has a new trellis." }, choices }),
  asking("guarded", "Add a server", { kind: "confirmation", tool: "Write", title: "Write .mcp.json?", detail: ".mcp.json", text: "it decides what runs", input: { file_path: ".mcp.json", content: '{\n  "mcpServers": {}\n}\n' }, choices: ["allow", "deny"] }),
  asking("post", "Post about the trellis", { kind: "permission", tool: "mcp__linkedin__linkedin_post", title: "Post on LinkedIn?", detail: "linkedin_post", text: `the turn has read a page of the web\n\nA public post on LinkedIn in the name of petra:\n\n${post}`, input: { text: post }, choices }),
  asking("reply", "Thank them", { kind: "permission", tool: "linkedin_reply_comment", title: "Reply on LinkedIn?", text: "A public reply on LinkedIn in the name of petra, to urn:li:comment:(urn:li:activity:1,2) on urn:li:activity:1:\n\nThank you!", input: { post_urn: "urn:li:activity:1", comment_urn: "urn:li:comment:(urn:li:activity:1,2)", text: `Thank you! ${"Very much. ".repeat(120)}` }, choices }),
];
