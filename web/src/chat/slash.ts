// Slash commands: the server knows what a session's say, and the page has some of its own.

import type { SlashCommand } from "../api/client.ts";

export interface Slash extends SlashCommand {
  /** The page does it, and sends nothing. */
  here?: boolean;
}

/** The commands whose names begin like a text that is nothing but the beginning of one. */
export function matching(text: string, all: readonly Slash[]): Slash[] {
  const typed = /^\/([^\s/\\]*)$/.exec(text)?.[1]?.toLowerCase();
  return typed === undefined ? [] : all.filter((c) => c.name.toLowerCase().startsWith(typed));
}

/** The session's commands, and the page's. The session's come first, also under a name that the page has. */
export const commandsOf = (own: readonly SlashCommand[], page: readonly Slash[]): Slash[] => [...own, ...page.filter((p) => !own.some((c) => c.name === p.name))];

/** What the page is to do for a message, if that is a command of its own. */
export const doneHere = (message: string, all: readonly Slash[]): string | undefined => all.find((c) => c.here && `/${c.name}` === message)?.name;
