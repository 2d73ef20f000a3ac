// A message on its way to the server.

import { ApiError } from "../api/client.ts";
import type { Attachment, BusyMode, ResourceRef, TurnView } from "../api/types.gen.ts";
import type { Exchange } from "../session/exchange.ts";

/** A message being sent. Because of the key, sending twice has the same effect as sending once. */
export interface Outbox {
  key: string;
  text: string;
  attached: readonly ResourceRef[];
  files: readonly Attachment[];
  /** What happens to it while a turn is open; undefined: the session's setting. */
  busy: BusyMode | undefined;
  /** The last turn before it. */
  before: string | undefined;
  turn?: string;
  error?: ApiError;
  stop?: boolean;
  /** Ends the request under way. */
  away?: AbortController;
}

/** The exchange that it will be. */
export const sendingOf = (o: Outbox): Exchange => ({
  id: o.key,
  question: o.text,
  ...(o.attached.length > 0 && { resources: o.attached }),
  ...(o.files.length > 0 && { attachments: o.files }),
  standing: o.error ? "unsent" : "sending",
  stopping: o.stop ?? false,
  steps: [],
  answer: "",
  cut: false,
  ...(o.error && { error: { code: o.error.code, message: o.error.message, hint: o.error.hint }, retryAt: o.error.retryAt }),
  models: [],
  attempt: 1,
  asked: [],
});

/** The turn that it has begun, if the log has it. */
export const turnOf = (o: Outbox, turns: readonly TurnView[] | null): TurnView | undefined =>
  turns?.find((t) => t.id === o.turn) ?? turnsAfter(turns, o.before).find((t) => t.message === o.text);

/** The turns after a given one, or all turns if it is not there. */
function turnsAfter(turns: readonly TurnView[] | null, id: string | undefined): readonly TurnView[] {
  return (turns ?? []).slice((turns ?? []).findIndex((t) => t.id === id) + 1);
}

export const stopped = new ApiError({ code: "cancelled", message: "You stopped this before it was sent." });

/** Whether the server has refused a request. After any other failure it may have carried it out. */
export const isRefusal = (e: ApiError): boolean => (e.status >= 400 && e.status < 500) || isOfMessage(e);

/** Whether an error says that the message itself cannot be accepted, so that nothing of it was kept. */
export const isOfMessage = (e: ApiError): boolean => /^(message|resources|app)\b/.test(e.field);
