// What a session that is followed is doing.

import type { TurnView } from "../api/types.gen.ts";
import { exchangesOf } from "../session/exchange.ts";
import type { Records } from "../session/records.ts";
import type { Watch } from "../session/session.ts";
import { heldIn } from "./waiting.ts";

/** The turn that runs or waits for an answer, otherwise the first in the queue. */
export function openTurn(w: Watch): string | undefined {
  const turns = w.view.transcript.turns ?? [];
  return (turns.findLast((t) => t.status === "running" || t.status === "waiting" || t.resumes) ?? turns.find((t) => t.status === "pending"))?.id;
}

/** Whether a turn is open, and the queue is not held. */
export function goesOn(w: Watch): boolean {
  return openTurn(w) !== undefined && !heldIn(exchangesOf(w.view.transcript.turns, w.view.live, w.view.records));
}

/** The cost of those turns that had ended by an event. */
export function spentUpTo(turns: readonly TurnView[] | null, records: Records, version: number): number {
  let usd = 0;
  for (const t of turns ?? []) if ((records.events.get(t.id)?.at(-1)?.seq ?? 0) <= version) usd += t.usage?.usd ?? 0;
  return usd;
}
