// Goes on with a turn whose connection was lost, by Parley's own API: the turn ran on without it.

import { toApiError, type Client } from "../api/client.ts";
import type { Interaction, StepView } from "../api/types.gen.ts";
import { exchangesOf, inOrder, type Exchange } from "../session/exchange.ts";
import { advance, beginAt, type SessionView } from "../session/live.ts";
import { isWaiting, type Asked } from "../session/records.ts";
import { watch, type Schedule } from "../session/session.ts";
import { proposalOf, rawOf, saidOf, type Card, type Outcome } from "./card.ts";
import type { Action } from "./message.ts";

/** How a turn is, as far as a panel needs it. */
export interface Seen {
  turn: string;
  question: string;
  askedAt: number;
  text: string;
  actions: Action[];
  /** "stopped" by somebody; "cut" has to be resumed. */
  state: "working" | "waiting" | "done" | "failed" | "stopped" | "cut";
  error?: string;
  /** The confirmations of the turn, by id. */
  cards: ReadonlyMap<string, { card: Card; state: Card["state"]; note?: string; asks?: string }>;
  /** The last one, if the turn waits for it. */
  open?: string;
  /** The turn waits for the user's token: it has ended, or the server was started again and has forgotten it. */
  login?: { interaction: string; names: readonly string[] };
}

export interface Following {
  close(): void;
}

/**
 * Follows the last turn of a session. Calls seen after each change; with undefined if the session has no turn. Calls
 * refused if the server does not have the session or does not let the user see it: then there is nothing to go on with.
 */
export async function followLast(
  client: Client,
  session: string,
  told: { seen(s: Seen | undefined): void; refused(): void; waiting(now: boolean): void },
  schedule: Schedule,
): Promise<Following> {
  const window = await client.window(session);
  const { version } = window.session;
  const watching = watch(
    client,
    session,
    beginAt(window),
    ({ view, connection }) => {
      if (connection.state === "refused") return told.refused();
      told.waiting(connection.state === "waiting");
      // Until the log has been read up to its end, what is last in it is not the last.
      if (view.transcript.seq >= version) told.seen(lastOf(view));
    },
    schedule,
  );
  return { close: watching.close };
}

/** The last turn of a session as it is now. */
export async function lookLast(client: Client, session: string): Promise<Seen | undefined> {
  const window = await client.window(session);
  const events = await client.events(session, window.after, window.session.version);
  return lastOf(advance(beginAt(window), events.map((event) => ({ kind: "event", event }))));
}

function lastOf(view: SessionView): Seen | undefined {
  const last = exchangesOf(view.transcript.turns, view.live, view.records).at(-1);
  return last && seenOf(last);
}

/** Whether an error says that asking again is of no use. */
export function isFinal(cause: unknown): boolean {
  const e = toApiError(cause);
  return e.status >= 400 && e.status < 500 && e.status !== 408 && e.status !== 429;
}

export function seenOf(x: Exchange): Seen {
  const steps = inOrder(x.steps);
  // Whether these calls were made is asked of a person.
  const unknown = new Map(x.asked.filter((a) => a.interaction.kind === "unknown").map((a) => [a.interaction.call ?? "", a]));
  const cards = new Map(x.asked.filter((a) => a.interaction.kind === "confirmation").map((a) => [a.interaction.id, settled(a, steps, unknown)]));
  const open = [...cards].findLast(([, c]) => c.state === "open")?.[0];
  const login = waitsFor(x, "credential");
  const doubt = open === undefined ? waitsFor(x, "unknown") : undefined;
  return {
    turn: x.id,
    question: x.question,
    askedAt: Date.parse(x.askedAt ?? "") || 0,
    text: doubt && x.answer === "" ? doubtOf(doubt) : x.answer,
    actions: actionsOf(steps),
    cards,
    ...(open && { open }),
    ...(login && { login: { interaction: login.id, names: login.credentials ?? [] } }),
    ...(doubt && !login ? { state: "done" as const } : stateOf(x, open !== undefined, login !== undefined)),
  };
}

/** As the wire says it. */
const doubtOf = (i: Interaction): string => {
  const what = proposalOf(JSON.stringify(i.input ?? null));
  return `It is not known whether ${what ? `${what.method} ${what.path}` : "a change"} was carried out: the answer was lost. Nothing is sent again by itself. Look at the data, and say how to go on.`;
};

const waitsFor = (x: Exchange, kind: Interaction["kind"]): Interaction | undefined =>
  x.standing === "waiting" ? x.asked.findLast((a) => a.interaction.kind === kind && !a.answer && a.expired === undefined)?.interaction : undefined;

function stateOf(x: Exchange, confirmation: boolean, login: boolean): Pick<Seen, "state" | "error"> {
  const why = x.error ? [x.error.message, x.error.hint].filter(Boolean).join(" — ") : (x.reason ?? "");
  switch (x.standing) {
    case "completed":
      return { state: "done" };
    case "cancelled":
      return { state: "stopped" };
    case "failed":
    case "expired":
      return { state: "failed", error: why || "The answer failed." };
    case "interrupted":
      return { state: "cut" };
    case "waiting":
      if (confirmation || login) return { state: "waiting" };
      // Another question, which the panel cannot answer; another message goes on.
      return { state: "failed", error: x.asked.findLast((a) => !a.answer && a.expired === undefined)?.interaction.title ?? "It waits for an answer that cannot be given here." };
  }
  return { state: "working" };
}

function actionsOf(steps: readonly StepView[]): Action[] {
  const outcomes = outcomesOf(steps);
  return steps.flatMap((s): Action[] => {
    if (s.type !== "tool_call") return [];
    const outcome = outcomes.get(s.call ?? "");
    return [{ ...labelOf(s), state: outcome === undefined ? "started" : outcome === "ok" ? "completed" : "failed" }];
  });
}

const outcomesOf = (steps: readonly StepView[]): ReadonlyMap<string, string> =>
  new Map(steps.filter((s) => s.type === "tool_result").map((s) => [s.call ?? "", s.outcome ?? ""]));

const requestOf = (input: unknown): Record<string, unknown> => (typeof input === "object" && input !== null ? (input as Record<string, unknown>) : {});

/** As the wire names it: a request by its method and path, other tools by their names and the only text of their input. */
function labelOf(s: Pick<StepView, "tool" | "input">): Pick<Action, "label" | "command"> {
  const input = requestOf(s.input);
  const { method, path } = input;
  if (typeof path === "string") return { label: `${typeof method === "string" ? method.toUpperCase() : "GET"} ${path.replace(/[?#].*$/s, "")}` };
  const texts = Object.values(input).filter((v) => typeof v === "string");
  const about = texts.length === 1 ? texts[0]?.trim().replace(/\s+/g, " ") : undefined;
  return { label: [s.tool, about?.slice(0, 100)].filter(Boolean).join(" "), command: true };
}

/** A confirmation and what became of it. */
function settled(a: Asked, steps: readonly StepView[], unknown: ReadonlyMap<string, Asked>): { card: Card; state: Card["state"]; note?: string; asks?: string } {
  const { interaction } = a;
  const expires = Date.parse(interaction.expires_at ?? "");
  const card: Card = {
    ...(proposalOf(JSON.stringify(interaction.input ?? null)) ?? { title: "", summary: "", method: "", path: interaction.tool ?? "" }),
    id: interaction.id,
    state: "open",
    ...(Number.isFinite(expires) && { expires }),
  };
  if (card.title === "") card.title = interaction.title;
  const outcome = outcomesOf(steps).get(interaction.call ?? "");
  if (a.expired !== undefined) return { card, state: "expired" };
  if (!a.answer) return { card, state: "open" };
  if (a.answer.choice !== "allow") return { card, state: "cancelled" };
  const doubt = unknown.get(interaction.call ?? "");
  if (outcome === "unknown" || (outcome === undefined && doubt)) {
    const said = saidOf[doubt?.answer?.choice as Outcome];
    return { card, state: "unknown", ...(said && { note: said }), ...(doubt && isWaiting(doubt) && { asks: doubt.interaction.id }) };
  }
  if (outcome === undefined) return { card, state: "sent" };
  if (outcome === "ok") return { card, state: "done" };
  return { card, state: outcome === "error" ? "failed" : "refused" };
}

/** A card as the server has written it: JSON that was parsed here is not always what was there. */
export async function exact(client: Client, card: Card): Promise<Card> {
  try {
    const answer = await client.fetch(`${client.base}v1/interactions/${encodeURIComponent(card.id)}`, { headers: { Accept: "application/json" } });
    const proposal = answer.ok ? proposalOf(rawOf(await answer.text(), "input") ?? "") : undefined;
    return proposal ? { ...card, ...proposal, title: proposal.title || card.title } : card;
  } catch {
    return card;
  }
}
