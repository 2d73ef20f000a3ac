// This browser's list of sessions, in the format and under the key that the page has always
// used. For a session that the server knows, the server's log is authoritative; for others this
// copy is all there is.

import { agentName, inOrder, isOpen, queryOf, type Exchange } from "../../session/exchange.ts";
import type { StepView } from "../../api/types.gen.ts";
import type { Known } from "../../chat/state.ts";

/** The page's own agents are scavenger, synthesizer and interface; an owner may name others. */
export type AgentName = string;

export type ThoughtStep =
  | { type: "agent_start"; agent: AgentName }
  | { type: "tool_call"; agent: AgentName; tool: string; query: string }
  | { type: "tool_result"; agent: AgentName; tool: string; result: string }
  | { type: "handoff"; from: AgentName; to: AgentName };

export interface Message {
  id: string;
  role: "user" | "assistant";
  content: string;
  thoughts: ThoughtStep[];
  isStreaming: boolean;
}

export interface Session {
  id: string;
  createdAt: string;
  /** The first user message, cut to 40 characters. */
  preview: string;
  messages: Message[];
}

export const sessionsKey = "chaoscontext_sessions";
const namesKey = "parley.chaos.known";

export function loadSessions(storage: Storage): Session[] {
  try {
    const value: unknown = JSON.parse(storage.getItem(sessionsKey) ?? "[]");
    return Array.isArray(value) ? value.filter(isSession) : [];
  } catch {
    return [];
  }
}

function isSession(v: unknown): v is Session {
  const s = v as Partial<Session> | null;
  return (
    typeof s === "object" &&
    s !== null &&
    typeof s.id === "string" &&
    typeof s.createdAt === "string" &&
    typeof s.preview === "string" &&
    Array.isArray(s.messages) &&
    s.messages.every((m: Partial<Message> | null) => typeof m === "object" && m !== null && typeof m.content === "string" && Array.isArray(m.thoughts))
  );
}

/**
 * Writes the list. If the browser has no room left, the oldest sessions lose their messages
 * first; for sessions that the server knows, nothing is lost.
 */
export function saveSessions(storage: Storage, sessions: Session[]): Session[] {
  let kept = sessions;
  for (;;) {
    try {
      storage.setItem(sessionsKey, JSON.stringify(kept));
      return kept;
    } catch {
      const oldest = kept.filter((s) => s.messages.length > 0).sort((a, b) => a.createdAt.localeCompare(b.createdAt))[0];
      if (!oldest) return sessions; // no storage at all: the list lives as long as the page
      kept = kept.map((s) => (s === oldest ? { ...s, messages: [] } : s));
    }
  }
}

export function loadKnown(storage: Storage): Record<string, Known> {
  try {
    const value: unknown = JSON.parse(storage.getItem(namesKey) ?? "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, Known>) : {};
  } catch {
    return {};
  }
}

export function saveKnown(storage: Storage, known: Record<string, Known>): void {
  try {
    storage.setItem(namesKey, JSON.stringify(known));
  } catch {
    // The server is asked again next time.
  }
}

const previewLength = 40;

/** A preview as it is shown: one that was cut says so. */
export const shown = (preview: string): string => ([...preview].length < previewLength ? preview : `${preview}…`);

export function previewOf(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return [...line].slice(0, previewLength).join("");
}

/** The exchanges in the format of the list. */
export function toMessages(exchanges: readonly Exchange[]): Message[] {
  return exchanges.flatMap((x) => [
    { id: `${x.id}.user`, role: "user" as const, content: x.question, thoughts: [], isStreaming: false },
    { id: x.id, role: "assistant" as const, content: x.answer, thoughts: inOrder(x.steps).flatMap(toThought), isStreaming: isOpen(x.standing) },
  ]);
}

/**
 * The messages of the last exchanges, after the older ones that are kept here, because only the
 * last are requested from the server.
 */
export function withOlder(kept: readonly Message[], last: readonly Message[]): Message[] {
  const read = new Set(last.map((m) => m.id));
  const at = kept.findIndex((m) => read.has(m.id));
  return [...(at < 0 ? [] : kept.slice(0, at)), ...last];
}

function toThought(s: StepView): ThoughtStep[] {
  const agent = agentName(s.agent);
  switch (s.type) {
    case "agent_start":
      return [{ type: "agent_start", agent }];
    case "tool_call":
      return [{ type: "tool_call", agent, tool: s.tool ?? "", query: queryOf(s.input) }];
    case "tool_result":
      return [{ type: "tool_result", agent, tool: s.tool ?? "", result: s.result ?? "" }];
    case "handoff":
      return [{ type: "handoff", from: agentName(s.from), to: agentName(s.to) }];
    case "note":
      return [];
  }
}

/** The list's messages as exchanges, used until the log has been read, or if there is none. */
export function fromMessages(messages: readonly Message[]): Exchange[] {
  const exchanges: Exchange[] = [];
  for (const m of messages) {
    const last = exchanges.at(-1);
    if (m.role === "user") {
      exchanges.push({
        id: m.id,
        question: m.content,
        standing: "completed",
        stopping: false,
        steps: [],
        answer: "",
        cut: false,
        models: [],
        attempt: 1,
        asked: [],
      });
    } else if (last) {
      last.id = m.id; // the turn's: so it stays the same element when its log has been read
      last.answer = m.content;
      if (m.isStreaming) last.standing = "running";
      last.steps = m.thoughts.map(fromThought);
    }
  }
  return exchanges;
}

function fromThought(t: ThoughtStep, i: number): StepView {
  const at = { seq: i, at: "" };
  switch (t.type) {
    case "tool_call":
      return { ...at, type: t.type, agent: t.agent, tool: t.tool, input: { query: t.query } };
    case "tool_result":
      return { ...at, type: t.type, agent: t.agent, tool: t.tool, result: t.result };
    case "handoff":
      return { ...at, type: t.type, from: t.from, to: t.to };
    case "agent_start":
      return { ...at, type: t.type, agent: t.agent };
  }
}
