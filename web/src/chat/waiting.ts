// How the message box behaves while a turn waits for a human.

import type { Exchange } from "../session/exchange.ts";
import { isOpen } from "../session/exchange.ts";
import { isWaiting, type Records } from "../session/records.ts";

/** A waiting turn, as the box below it shows it. */
export interface Waiting {
  /** What sending a message does to the question above. */
  says: string;
  /** The label of that button. */
  action: string;
  /** The session accepts a message that is queued after the turn. */
  canQueue: boolean;
  /** The turn is over once the message comes: there is nothing to steer or to stop. */
  closes?: true;
}

/** Whether the queue waits for the next message, because the turn before it or the server was stopped. */
export function heldIn(exchanges: readonly Exchange[]): boolean {
  const open = exchanges.filter((x) => isOpen(x.standing));
  if (open.length === 0 || open.some((x) => x.standing !== "pending")) return false;
  const before = exchanges.findLast((x) => !isOpen(x.standing) && x.standing !== "unsent");
  return before?.standing === "cancelled" || before?.standing === "expired" || before?.standing === "interrupted";
}

/** An interrupted turn is closed by the next message, unless it goes on by itself. */
function interrupted(exchanges: readonly Exchange[]): Waiting | undefined {
  if (exchanges.at(-1)?.standing !== "interrupted") return undefined;
  return { says: "Closes the interrupted answer above, which then cannot go on, and says this.", action: "Send", canQueue: false, closes: true };
}

/** The turn that waits for a human, if any; other turns may be queued after it. */
export function waitingIn(exchanges: readonly Exchange[], records: Pick<Records, "maxOpenTurns">): Waiting | undefined {
  const x = exchanges.find((x) => x.standing === "waiting");
  if (!x) return interrupted(exchanges);
  const kinds = x.asked.filter(isWaiting).map((a) => a.interaction.kind);
  const several = kinds.length > 1;
  const canQueue = exchanges.filter((x) => isOpen(x.standing)).length < records.maxOpenTurns;
  if (kinds.every((k) => k === "question")) {
    return { says: `Skips the ${several ? "questions" : "question"} above and says this instead.`, action: "Skip and say this", canQueue };
  }
  if (kinds.every((k) => k === "unknown")) {
    return { says: `Leaves what is open above as it is and says this.`, action: "Leave it and say this", canQueue };
  }
  if (kinds.every((k) => k === "client")) {
    return { says: `Goes on without the ${several ? "calls" : "call"} above and says this instead.`, action: "Go on without it", canQueue };
  }
  return { says: `Declines what is asked above${several ? ", all of it," : ""} and says this instead.`, action: "Decline and say this", canQueue };
}
