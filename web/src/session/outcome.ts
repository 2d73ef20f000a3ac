// How an interaction ended, in words.

import type { Interaction, InteractionAnswered } from "../api/types.gen.ts";
import { byWhom } from "../ui/text.ts";
import type { Asked } from "./records.ts";

const past: Record<string, string> = {
  allow: "Allowed once",
  allow_session: "Allowed for this conversation",
  deny: "Denied",
  happened: "It happened",
  did_not: "It did not happen",
  again: "To be done again",
  leave: "Left as it is",
  answered: "Answered",
  claimed: "Claimed by a client",
};

/** How it ended, in a few words. */
export function outcomeOf(a: Pick<Asked, "answer" | "expired"> & { interaction: Pick<Interaction, "kind" | "sampling"> }): string {
  const choice = a.answer?.choice ?? "";
  const { kind, sampling } = a.interaction;
  if (a.expired !== undefined) return kind === "client" ? "No client claimed it" : "Closed without an answer";
  if (kind === "confirmation" && choice === "allow") return "Confirmed";
  if (kind === "confirmation" && choice === "deny") return "Not confirmed";
  if (kind === "question" && !sampling && choice === "deny") return "Skipped";
  if (kind === "client" && choice === "deny") return "Went on without it";
  return (past[choice] ?? choice) + (a.answer?.input === undefined ? "" : ", with edited input");
}

/** The client that the page and the terminal are in the log. */
const here = "api";

/** Who closed it, and from where if it was not from here. */
export function whoOf(a: Pick<Asked, "by" | "client">): string {
  return [byWhom(a.by), a.client && a.client !== here && "from another program"].filter(Boolean).join(" ");
}

/** How an answer in the log ended its interaction, and who gave it. */
export function closingOf(closed: InteractionAnswered, interaction: Interaction | undefined): string {
  const how = outcomeOf({ interaction: interaction ?? { kind: "permission" }, answer: closed.answer });
  return [how, whoOf(closed)].filter(Boolean).join(" ");
}
