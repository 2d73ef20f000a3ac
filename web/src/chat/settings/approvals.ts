// What the panel of approvals says, independent of the screen.

import type { Approval, ApprovalState } from "../../api/client.ts";

/** The text of the button; "" if the list is empty. */
export function counted(list: readonly Approval[]): { text: string; urgent: boolean } {
  const open = list.filter((a) => a.state === "open" && !a.problem).length;
  if (open > 0) return { text: `${open} to approve`, urgent: true };
  const what = list.every((a) => a.remote) ? "service" : list.some((a) => a.remote) ? "entry" : "program";
  return { text: list.length === 0 ? "" : `${list.length} ${list.length === 1 ? what : what === "entry" ? "entries" : `${what}s`}`, urgent: false };
}

export const kindOf = (a: Approval): string => (a.kind === "hook" ? "Hook" : a.kind === "mcp_server" ? "MCP server" : a.kind);

/** What an approval lets happen. */
export const meaningOf = (a: Approval): string =>
  !a.remote
    ? "A program, which runs with the rights of the server:"
    : a.kind === "mcp_server"
      ? "A service, which is called over HTTP. Nothing of it runs on the server. It gets what the agent sends to its tools, and its answers reach the agent:"
      : "A service, which is called over HTTP. Nothing of it runs on the server. It is told what the agent does, and may say something to it:";

/** A command line as its words and what is between them, because a browser breaks a line after any hyphen. */
export const wordsOf = (runs: string): string[] => runs.match(/\S+|\s+/g) ?? [];

/** The file that names it, and its owner. */
export const whereOf = (a: Approval): string => `${a.file} of ${a.level === "user" ? "your own folder" : `the ${a.level}`}`;

const states: Record<ApprovalState, string> = {
  open: "Does not run: it has not been approved",
  allowed: "May run",
  denied: "Denied",
  off: "Off: this app runs nothing that such files name",
};

const called: Record<ApprovalState, string> = {
  open: "Is not called: it has not been approved",
  allowed: "May be called",
  denied: "Denied",
  off: "Off: this app calls nothing that such files name",
};

/** Whether it runs, or is called, in words. */
export function stateOf(a: Approval): string {
  if (a.problem) return a.remote ? "Is not called" : "Does not run";
  return (a.remote ? called : states)[a.state] ?? a.state;
}

/** The possible decisions about it. */
export function decisionsOf(a: Approval): readonly ("allowed" | "denied")[] {
  if (a.state === "off") return [];
  const all = a.problem ? (["denied"] as const) : (["allowed", "denied"] as const);
  return all.filter((s) => s !== a.state);
}
