// What the tab keeps over page changes and reloads. Never a token.

import { messagesOf, most, type Message } from "./message.ts";

/** What is under way, so that the next page can go on with it. */
export interface Flight {
  kind: "message" | "confirm" | "cancel" | "settle";
  /** The text on the wire; of a settle what became of the write. */
  text: string;
  /** Of a cancel: the confirmation that it declines. Of a settle: the question that it answers. */
  card?: string;
  /** The message that the answer goes into. */
  answer: string;
  sentAt: number;
  /** It may have reached the server. */
  sent: boolean;
  /** The server has begun with it. */
  started: boolean;
}

export interface Kept {
  /** Whose it is, as far as is known. */
  who: string;
  org: string;
  open: boolean;
  draft: string;
  session: string;
  conversation: string;
  title: string;
  messages: Message[];
  flight?: Flight;
}

export type Shelf = Pick<Storage, "getItem" | "setItem" | "removeItem">;

export class Keep {
  readonly #shelf: Shelf | undefined;
  readonly #key: string;

  constructor(shelf: Shelf | undefined, key: string) {
    this.#shelf = shelf;
    this.#key = `parley.sidecar ${key}`;
  }

  read(): Kept | undefined {
    try {
      const k = JSON.parse(this.#shelf?.getItem(this.#key) ?? "null") as Record<string, unknown> | null;
      if (k === null || typeof k !== "object") return undefined;
      const say = (name: string): string => (typeof k[name] === "string" ? k[name] : "");
      const flight = flightOf(k["flight"]);
      return {
        who: say("who"),
        org: say("org"),
        open: k["open"] === true,
        draft: say("draft"),
        session: say("session"),
        conversation: say("conversation"),
        title: say("title"),
        messages: messagesOf(k["messages"]),
        ...(flight && { flight }),
      };
    } catch {
      return undefined; // forbidden, or not ours
    }
  }

  write(k: Kept): void {
    // What is long is cut from the front: the end is what the person looks at.
    let room: number = most.text * 5;
    let from = k.messages.length;
    while (from > 0 && k.messages.length - from < most.messages) {
      const m = k.messages[from - 1];
      room -= (m?.text.length ?? 0) + (m?.sent?.length ?? 0) + (m?.card?.body?.length ?? 0) + 200;
      if (room < 0) break;
      from--;
    }
    try {
      this.#shelf?.setItem(this.#key, JSON.stringify({ ...k, messages: k.messages.slice(from) }));
    } catch {
      // Full or forbidden: the panel works, and forgets with the page.
    }
  }

  forget(): void {
    try {
      this.#shelf?.removeItem(this.#key);
    } catch {
      // as above
    }
  }
}

function flightOf(f: unknown): Flight | undefined {
  if (typeof f !== "object" || f === null) return undefined;
  const { kind, text, card, answer, sentAt, sent, started } = f as Record<string, unknown>;
  if ((kind !== "message" && kind !== "confirm" && kind !== "cancel" && kind !== "settle") || typeof text !== "string" || typeof answer !== "string") return undefined;
  return { kind, text, answer, ...(typeof card === "string" && { card }), sentAt: typeof sentAt === "number" ? sentAt : 0, sent: sent === true, started: started === true };
}
