// What the panel of approvals says, independent of the screen.

import type { Approval, ApprovalState } from "../../api/client.ts";

/** The text of the button; "" if the list is empty. */
export function counted(list: readonly Approval[]): { text: string; urgent: boolean } {
  const open = list.filter((a) => a.state === "open" && !a.problem).length;
  if (open > 0) return { text: `${open} to approve`, urgent: true };
  return { text: list.length === 0 ? "" : `${list.length} ${list.length === 1 ? "program" : "programs"}`, urgent: false };
}

export const kindOf = (a: Approval): string => (a.kind === "hook" ? "Hook" : a.kind === "mcp_server" ? "MCP server" : a.kind);

/** The file that names it, and its owner. */
export const whereOf = (a: Approval): string => `${a.file} of ${a.level === "user" ? "your own folder" : `the ${a.level}`}`;

const states: Record<ApprovalState, string> = {
  open: "Does not run: it has not been approved",
  allowed: "May run",
  denied: "Denied",
  off: "Off: this app runs nothing that such files name",
};

/** Whether it runs, in words. */
export const stateOf = (a: Approval): string => (a.problem ? "Does not run" : (states[a.state] ?? a.state));

/** The possible decisions about it. */
export function decisionsOf(a: Approval): readonly ("allowed" | "denied")[] {
  if (a.state === "off") return [];
  const all = a.problem ? (["denied"] as const) : (["allowed", "denied"] as const);
  return all.filter((s) => s !== a.state);
}
