// The tools that every app may have: what their calls do, and what they found, in words. A call whose input has another
// form is a tool of somebody else with the same name, and is said as any other.

import { count } from "../../ui/text.ts";

type Input = Readonly<Record<string, unknown>>;

const text = (v: unknown): string => (typeof v === "string" ? v : "");

const calls: Readonly<Record<string, (i: Input) => string>> = {
  Read: (i) => (i["file_path"] ? `Reads ${text(i["file_path"])}${linesOf(i)}` : ""),
  Write: (i) => (i["file_path"] && typeof i["content"] === "string" ? `Writes ${text(i["file_path"])}` : ""),
  Edit: (i) => (i["file_path"] && typeof i["new_string"] === "string" ? `Edits ${text(i["file_path"])}${i["replace_all"] === true ? ", everywhere in it" : ""}` : ""),
  NotebookEdit: (i) => (i["notebook_path"] ? `${{ insert: "Adds a cell to", delete: "Removes a cell from" }[text(i["edit_mode"])] ?? "Edits a cell of"} ${text(i["notebook_path"])}` : ""),
  Glob: (i) => (i["pattern"] ? `Looks for files named ${text(i["pattern"])}${i["path"] ? ` in ${text(i["path"])}` : ""}` : ""),
  Grep: (i) => (i["pattern"] ? `Searches for “${text(i["pattern"])}”${whereOf(i)}` : ""),
  WebFetch: (i) => (i["url"] ? `Opens ${text(i["url"])}` : ""),
  WebSearch: (i) => (i["query"] ? `Searches the web for “${text(i["query"])}”` : ""),
  Task: (i) => (i["subagent_type"] && i["prompt"] ? `Gives a task to ${text(i["subagent_type"])}: ${text(i["description"]) || text(i["prompt"])}` : ""),
  AgentOutputTool: (i) => (i["agentId"] ? `Asks what ${text(i["agentId"]).replace(/^.*\//, "")} has found` : ""),
  lake_search: (i) => (i["query"] ? `Searches the lake for “${text(i["query"])}”` : ""),
  lake_list: (i) => `Lists the lake${i["folder"] ? `, in ${text(i["folder"])}` : ""}`,
  lake_read: (i) => (i["path"] ? `Reads ${text(i["path"])} of the lake` : ""),
  lake_create: (i) => (i["path"] && i["reason"] ? `Creates ${text(i["path"])} in the lake` : ""),
  lake_update: (i) => (i["path"] && i["reason"] ? `Changes ${text(i["path"])} in the lake` : ""),
  lake_move: (i) => (i["path"] && i["to"] ? `Moves ${text(i["path"])} to ${text(i["to"])}` : ""),
  lake_delete: (i) => (i["path"] && i["reason"] ? `Deletes ${text(i["path"])} from the lake` : ""),
  lake_link: (i) => (i["path"] && i["to"] ? `Links ${text(i["path"])} to ${text(i["to"])}` : ""),
  lake_backlinks: (i) => (i["path"] ? `Looks what links to ${text(i["path"])}` : ""),
  lake_history: (i) => (i["path"] ? `Looks at the history of ${text(i["path"])}` : ""),
  lake_diff: (i) => (i["path"] ? `Compares versions of ${text(i["path"])}` : ""),
  lake_validate: () => "Checks the lake",
  AskUserQuestion: (i) => {
    const asked = typeof i["questions"] === "string" ? i["questions"] : questionsOf(i["questions"]);
    return asked ? `Asks: ${asked}` : "";
  },
  TodoWrite: (i) => {
    const tasks = tasksOf("TodoWrite", i);
    return tasks ? `Keeps a list of tasks: ${progress(tasks)}` : "";
  },
};

const questionsOf = (v: unknown): string => (Array.isArray(v) ? v.map((q: { question?: unknown } | null) => text(q?.question)).filter((q) => q !== "").join(" ") : "");

function linesOf(i: Input): string {
  const from = typeof i["offset"] === "number" && i["offset"] > 1 ? i["offset"] : 1;
  if (typeof i["limit"] === "number") return `, lines ${count(from)} to ${count(from + i["limit"] - 1)}`;
  return from > 1 ? `, from line ${count(from)}` : "";
}

function whereOf(i: Input): string {
  const kinds = [text(i["glob"]), i["type"] ? `*.${text(i["type"])}` : ""].filter((k) => k !== "").join(", ");
  return `${i["path"] ? ` in ${text(i["path"])}` : ""}${kinds ? ` in files named ${kinds}` : ""}`;
}

/** What a call of one of these tools does; "" for other calls. */
export function toolCall(tool: string, input: unknown): string {
  const says = Object.hasOwn(calls, tool) ? calls[tool] : undefined;
  return (says && typeof input === "object" && input !== null && says(input as Input)) || "";
}

const many = (n: number, one: string): string => `${count(n)} ${one}${n === 1 ? "" : "s"}`;

const results: Readonly<Record<string, (lines: readonly string[]) => string>> = {
  Read: (lines) => {
    const read = lines.filter((l) => /^ *\d+\t/.test(l)).length;
    return read > 0 ? many(read, "line") : "";
  },
  Glob: (lines) => found(lines, "file"),
  Grep: (lines) => found(lines, "hit"),
};

/** More than one line is a list, with at most a note in brackets below it. */
function found(lines: readonly string[], one: string): string {
  const list = lines.filter((l) => l !== "--");
  const note = /^\((?:(\d+) more;|Rows \d+ to \d+ of (\d+)\.)?.*\)$/.exec(list.at(-1) ?? "");
  const shown = list.length - (note ? 1 : 0);
  if (list.length < 2) return "";
  return many(note?.[2] ? Number(note[2]) : shown + Number(note?.[1] ?? 0), one);
}

/** What a call of one of these tools found, in a few words; "" if its output says it itself. */
export function toolResult(tool: string, output: string): string {
  const says = Object.hasOwn(results, tool) ? results[tool] : undefined;
  return says?.(output.trimEnd().split("\n")) ?? "";
}

export interface Task {
  text: string;
  status: "pending" | "in_progress" | "completed";
}

/** The tasks in a call of TodoWrite; undefined for other calls. */
export function tasksOf(tool: string, input: unknown): Task[] | undefined {
  const { todos } = (tool === "TodoWrite" && typeof input === "object" && input !== null ? input : {}) as { todos?: unknown };
  if (!Array.isArray(todos)) return undefined;
  return todos.flatMap((t: { content?: unknown; status?: unknown } | null) => {
    const status = t?.status;
    return typeof t?.content === "string" && (status === "pending" || status === "in_progress" || status === "completed") ? [{ text: t.content, status }] : [];
  });
}

const progress = (tasks: readonly Task[]): string => `${tasks.filter((t) => t.status === "completed").length} of ${tasks.length} done`;

/** A change of a file that a call would make, as far as its input says it. */
export interface Planned {
  path: string;
  /** The text that is replaced; undefined: the whole file. */
  before?: string;
  /** undefined: only values of the front matter change. */
  after?: string;
  /** Wherever the text is, not only in one place. */
  everywhere: boolean;
  /** Values of the front matter that are set; null removes one. Everything else in it stays, as SetFront of internal/lake does it. */
  front?: Readonly<Record<string, unknown>>;
}

/** The change of an entity of a lake. A call that says too much or too little is refused, so nothing is foreseen of it. */
function plannedInLake(tool: string, i: Input): Planned | undefined {
  const { path, content, old_string: before, new_string: after, front: values } = i;
  if (typeof path !== "string" || path === "") return undefined;
  const front = typeof values === "object" && values !== null && Object.keys(values).length > 0 ? { front: values as Input } : undefined;
  const parts = before !== undefined || after !== undefined;
  if (content !== undefined) return typeof content === "string" && !parts && !front ? { path, after: content, everywhere: false } : undefined;
  if (tool !== "lake_update" || (!parts && !front)) return undefined;
  if (!parts) return { path, everywhere: false, ...front };
  if (typeof before !== "string" || before === "" || typeof after !== "string") return undefined;
  return { path, before, after, everywhere: i["replace_all"] === true, ...front };
}

/** The change of a file in the input of a Write or an Edit; undefined for other calls. */
export function plannedIn(tool: string | undefined, input: unknown): Planned | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  const i = input as Input;
  if (tool === "lake_create" || tool === "lake_update") return plannedInLake(tool, i);
  const path = i["file_path"];
  if (typeof path !== "string" || path === "") return undefined;
  if (tool === "Write" && typeof i["content"] === "string") return { path, after: i["content"], everywhere: false };
  if (tool === "Edit" && typeof i["old_string"] === "string" && typeof i["new_string"] === "string") {
    return { path, before: i["old_string"], after: i["new_string"], everywhere: i["replace_all"] === true };
  }
  return undefined;
}
