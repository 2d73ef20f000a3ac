// What became of a turn's calls with effects: which were done, and which may have been.

import type { Event, Outcome, ToolStarted } from "../api/types.gen.ts";
import { clock, clockExact } from "../ui/text.ts";
import { oneLine } from "../ui/tame.ts";

export interface Write {
  /** Its tool and what it is about: "add_contact (Uwe)". */
  name: string;
  tool: string;
  sentAt: string;
  deadline: string;
  /** open: no outcome is known yet; none: it had no effect that is worth a word. */
  state: "open" | "done" | "unknown" | "none";
}

const longestSubject = 60;

/** How long after its deadline the server still waits for a call whose owner is gone. */
const settleLateMs = 5000;

/** The calls of a turn that are not reads, in the order in which they were first started. */
export function writesOf(events: readonly Event[]): Write[] {
  const writes = new Map<string, Write>();
  const asked = new Map<string, string>();
  for (const e of events) {
    if ((e.v ?? 0) > 0 || !e.data) continue;
    switch (e.type) {
      case "tool.started": {
        const { call, name, effect, deadline } = e.data;
        if (effect !== "read") writes.set(call, { name: nameOf(e.data), tool: name, sentAt: e.time, deadline, state: "open" });
        break;
      }
      case "tool.ended": {
        const w = writes.get(e.data.call);
        if (w) w.state = after(e.data.outcome);
        break;
      }
      case "interaction.opened":
        if (e.data.kind === "unknown" && e.data.call) asked.set(e.data.id, e.data.call);
        break;
      case "interaction.answered": {
        const w = writes.get(asked.get(e.data.id) ?? "");
        const { choice } = e.data.answer;
        if (w && choice === "happened") w.state = "done";
        if (w && (choice === "did_not" || choice === "again")) w.state = "none";
        break;
      }
    }
  }
  return [...writes.values()];
}

const after = (outcome: Outcome): Write["state"] => (outcome === "ok" ? "done" : outcome === "unknown" ? "unknown" : "none");

/** A call by its tool and what it is about. If its tool does not say that, these are the plain values of its input. */
export function nameOf({ name, input, subject }: Pick<ToolStarted, "name" | "input" | "subject">): string {
  const values = typeof input === "object" && input !== null ? Object.values(input) : [];
  const about = oneLine(subject ?? values.filter((v) => typeof v === "string" || typeof v === "number").join(", "), longestSubject);
  return about === "" ? name : `${name} (${about})`;
}

/** Where a server stopped: the calls that it had sent, and whose outcome is not known yet. Starting over could repeat them. */
export const unsettled = (writes: readonly Write[]): Write[] => writes.filter((w) => w.state === "open" || w.state === "unknown");

/** What is said of these calls while the turn is interrupted. */
export function sentText(writes: readonly Write[]): string {
  return writes.map((w) => `${w.name} was begun at ${clock(w.sentAt)} and may have taken effect.`).join(" ");
}

/** What a turn that is being stopped waits for. */
export function stoppingText(writes: readonly Write[]): string {
  const open = writes.filter((w) => w.state === "open");
  if (open.length === 0) return "Stopping…";
  const last = open.reduce((a, b) => (Date.parse(b.deadline) > Date.parse(a.deadline) ? b : a));
  const after = new Date(Date.parse(last.deadline) + settleLateMs);
  return `Stopping: waiting for ${open.map((w) => w.name).join(", ")}, until ${clockExact(after.toISOString())} at the latest.`;
}

/** What is said of one call whose outcome nobody knows. */
export const unknownText = (name: string): string => `The outcome of a call of ${name} is unknown: it may have taken effect. Check there before you ask again.`;

/** What a turn that ended without a complete answer has done, and may have done; a line for each call. */
export function endedTexts(writes: readonly Write[]): string[] {
  return writes.flatMap((w) => (w.state === "done" ? [`${w.name} was done.`] : w.state === "unknown" ? [unknownText(w.name)] : []));
}

/** What trying again may repeat: "Try again: may do add_contact again"; without such calls only "Try again". */
export function retryText(writes: readonly Write[]): string {
  const tools = new Set(writes.filter((w) => w.state === "done" || w.state === "unknown").map((w) => w.tool));
  return tools.size === 0 ? "Try again" : `Try again: may do ${[...tools].join(", ")} again`;
}
