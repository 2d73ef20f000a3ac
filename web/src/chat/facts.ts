// The line below an answer: its cost, and who gave it.

import type { AppInfo } from "../api/client.ts";
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

/** A model that an app asks. */
export interface Used {
  model: string;
  /** The agents that it answers for, unless it answers for all. */
  agents?: string[];
}

/** The models that an app's agents ask, in a conversation that may have chosen one for all of them. */
export function modelsOf(app: Pick<AppInfo, "model" | "agents">, chosen: string): Used[] {
  const agents = app.agents ?? [];
  const by = new Map<string, string[]>();
  for (const a of agents) {
    const model = chosen || a.model || app.model.name;
    by.set(model, [...(by.get(model) ?? []), a.name]);
  }
  if (by.size === 0) return [{ model: chosen || app.model.name }];
  return [...by].map(([model, of]) => ({ model, ...(of.length < agents.length && { agents: of }) }));
}

/** A model's name and its provider; the provider of a script is "script". */
export function partsOf(model: string): { name: string; provider: string } {
  const at = model.indexOf("/");
  const provider = at < 0 ? "" : model.slice(0, at);
  return { name: model.slice(at + 1), provider: provider === "scripted" ? "script" : provider };
}

/** The cost of a conversation in US dollars, including attempts that are not shown. */
export function spentIn(exchanges: readonly Exchange[]): number {
  return exchanges.reduce((sum, x) => sum + (x.usage?.usd ?? 0) + (x.spentBefore ?? 0), 0);
}

/** The cost of a conversation, if it is more than that of its last answer. */
export function sessionFact(usd: number, last: Exchange): string {
  return usd > (last.usage?.usd ?? 0) ? `${dollars(usd)} in this conversation` : "";
}
