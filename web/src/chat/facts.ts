// The line below an answer: its cost, and who gave it.

import type { Exchange } from "../session/exchange.ts";
import { count, dollars, lasted } from "../ui/text.ts";

/** A turn's facts. If a call gave no reply, its usage was only reserved, so the total is shown as "at most". */
export function factsOf(x: Exchange): string[] {
  const facts: string[] = [];
  if (x.attempt > 1) facts.push(`attempt ${x.attempt}`);
  if (x.usage) {
    const u = x.usage;
    const tokens = u.input_tokens + u.output_tokens + (u.cache_read_tokens ?? 0) + (u.cache_write_tokens ?? 0);
    const most = u.estimated ? "at most " : "";
    facts.push(`${most}${count(tokens)} tokens`, `${u.usd ? most : ""}${dollars(u.usd ?? 0)}`);
  }
  if (x.askedAt && x.endedAt) {
    const ms = Date.parse(x.endedAt) - Date.parse(x.askedAt);
    if (ms >= 0) facts.push(lasted(ms));
  }
  facts.push(...x.models.map(modelName).filter((m) => m !== ""));
  return facts;
}

/** A model's name without its provider's; "" for the script of the demo, which is none. */
export const modelName = (model: string): string => (model.startsWith("scripted/") ? "" : model.slice(model.indexOf("/") + 1));

/** The cost of a conversation in US dollars, including attempts that are not shown. */
export function spentIn(exchanges: readonly Exchange[]): number {
  return exchanges.reduce((sum, x) => sum + (x.usage?.usd ?? 0) + (x.spentBefore ?? 0), 0);
}

/** The cost of a conversation, if it is more than that of its last answer. */
export function sessionFact(usd: number, last: Exchange): string {
  return usd > (last.usage?.usd ?? 0) ? `${dollars(usd)} in this conversation` : "";
}
