// The server, its API and its commands say "session" for what the page calls a conversation.

import type { ErrorInfo } from "./types.gen.ts";

/** The server's words in the page's: a session becomes a conversation. Commands, addresses, names in code and quoted names stay as they are. */
export const inPageWords = (text: string): string =>
  text.replace(/(^|parley |[\s(])([Ss])ession(s?)(?![\w/=-]|[.:]\w)/g, (all: string, before: string, s: string, many: string) =>
    before === "parley " ? all : `${before}${s === "S" ? "C" : "c"}onversation${many}`,
  );

type Told = Partial<Pick<ErrorInfo, "code" | "message" | "hint">>;

/** An error in the page's words. The message of a model or a tool may quote another service, so it stays as it is. */
export function errorInPageWords<E extends Told>(error: E): E {
  const quotes = error.code === "model_error" || error.code === "tool_error";
  return {
    ...error,
    ...(error.message !== undefined && !quotes && { message: inPageWords(error.message) }),
    ...(error.hint !== undefined && { hint: inPageWords(error.hint) }),
  };
}
