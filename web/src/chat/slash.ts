// Slash commands. The server knows the text of a session's commands, and the page has some of its own.

import type { SlashCommand } from "../api/client.ts";

export interface Slash extends SlashCommand {
  /** The page carries it out, and sends nothing. */
  here?: boolean;
}

/** The commands whose names begin with a text, if the text is only the beginning of a command. */
export function matching(text: string, all: readonly Slash[]): Slash[] {
  const typed = /^\/([^\s/\\]*)$/.exec(text)?.[1]?.toLowerCase();
  return typed === undefined ? [] : all.filter((c) => c.name.toLowerCase().startsWith(typed));
}

/** The session's commands, and the page's. The session's come first, also under a name that the page has. */
export const commandsOf = (own: readonly SlashCommand[], page: readonly Slash[]): Slash[] => [...own, ...page.filter((p) => !own.some((c) => c.name === p.name))];

/** The page's own command in a message, if it is one. */
export const doneHere = (message: string, all: readonly Slash[]): string | undefined => all.find((c) => c.here && `/${c.name}` === message)?.name;
