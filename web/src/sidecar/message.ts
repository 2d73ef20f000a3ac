// What a conversation consists of, as it is shown, kept in the tab and stored by the server.

import { cardOf, isSettled, type Card, type CardState } from "./card.ts";

export interface Action {
  /** "GET /api/leads", or a command. */
  label: string;
  command?: boolean;
  state: "started" | "completed" | "failed";
}

export type Standing =
  | "working"
  | "done"
  /** With an error. */
  | "failed"
  /** The person stopped it. */
  | "stopped"
  /** Its end never came here. */
  | "cut";

export interface Message {
  id: string;
  from: "user" | "agent";
  text: string;
  at: number;
  /** Of what the person wrote: the text on the wire, if it has the page's context. */
  sent?: string;
  /** What is below is of an answer. */
  state?: Standing;
  actions?: Action[];
  card?: Card;
  error?: string;
  /** The session that it belongs to. */
  session?: string;
}

/** More than this is not kept in the tab. */
export const most = { messages: 500, text: 200_000 } as const;

const standings: readonly string[] = ["working", "done", "failed", "stopped", "cut"] satisfies Standing[];
const states: readonly string[] = ["open", "sent", "done", "failed", "refused", "unknown", "expired", "cancelled"] satisfies CardState[];

/** Messages from a store, of which nothing is taken for granted: other programs may have written them. */
export function messagesOf(list: unknown): Message[] {
  if (!Array.isArray(list)) return [];
  return list.slice(-most.messages).flatMap((m: unknown, i): Message[] => {
    if (typeof m !== "object" || m === null) return [];
    const { id, from, role, text, content, at, sent, state, actions, card, error, session } = m as Record<string, unknown>;
    const said = typeof text === "string" ? text : typeof content === "string" ? content : "";
    const user = from === "user" || role === "user";
    if (!user && from !== "agent" && role !== "assistant") return [];
    const kept = cardFrom(card) ?? (user ? undefined : cardFrom(cardOf(said)));
    return [
      {
        id: typeof id === "string" && id !== "" ? id : `m${i}`,
        from: user ? "user" : "agent",
        text: kept ? "" : said.slice(0, most.text),
        at: typeof at === "number" ? at : 0,
        ...(typeof sent === "string" && { sent }),
        ...(!user && { state: standings.includes(state as string) ? (state as Standing) : "done" }),
        ...(Array.isArray(actions) && { actions: actions.flatMap(actionFrom).slice(0, 200) }),
        ...(kept && { card: kept }),
        ...(typeof error === "string" && { error }),
        ...(typeof session === "string" && { session }),
      },
    ];
  });
}

function actionFrom(a: unknown): Action[] {
  if (typeof a !== "object" || a === null) return [];
  const { label, command, state } = a as Record<string, unknown>;
  if (typeof label !== "string") return [];
  return [{ label, ...(command === true && { command }), state: state === "failed" || state === "started" ? state : "completed" }];
}

function cardFrom(c: unknown): Card | undefined {
  if (typeof c !== "object" || c === null) return undefined;
  const { id, title, summary, method, path, body, state, note, expires, asks } = c as Record<string, unknown>;
  if (typeof id !== "string" || typeof method !== "string" || typeof path !== "string") return undefined;
  const say = (v: unknown): string => (typeof v === "string" ? v : "");
  return {
    id,
    title: say(title),
    summary: say(summary),
    method,
    path,
    ...(typeof body === "string" && { body }),
    state: states.includes(state as string) ? (state as CardState) : "unknown",
    ...(typeof note === "string" && { note }),
    ...(typeof expires === "number" && { expires }),
    ...(typeof asks === "string" && { asks }),
  };
}

/** The card that waits, or whose outcome is awaited. */
export const openCard = (messages: readonly Message[]): Message | undefined => messages.findLast((m) => m.card && !isSettled(m.card.state));

/** A conversation's first words are its title. */
export function titleOf(text: string): string {
  const line = [...text.replace(/\s+/g, " ").trim()];
  return line.length <= 60 ? line.join("") : `${line.slice(0, 59).join("").trimEnd()}…`;
}
