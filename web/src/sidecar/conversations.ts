// The stored conversations of the user in the organisation: /api/chat/conversations.

import { errorOf, unreachable, type Fetch } from "../api/client.ts";
import { messagesOf, type Message } from "./message.ts";

export interface Conversation {
  id: string;
  title: string;
  /** In ms. */
  updated: number;
}

export interface Conversations {
  list(query: string): Promise<Conversation[]>;
  read(id: string): Promise<{ title: string; messages: Message[] }>;
  /** Creates one, and returns its id. */
  create(title: string, messages: readonly Message[]): Promise<string>;
  save(id: string, changed: { title?: string; messages?: readonly Message[] }): Promise<void>;
  remove(id: string): Promise<void>;
}

/** How many are listed. Older ones are found by searching. */
const page = 100;

export function conversationsAt(base: () => string, fetcher: Fetch): Conversations {
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    let answer: Response;
    try {
      answer = await fetcher(`${base()}api/chat/conversations${path}`, {
        method,
        headers: { Accept: "application/json", ...(body !== undefined && { "Content-Type": "application/json" }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
    } catch (cause) {
      if (cause instanceof TypeError) throw unreachable();
      throw cause;
    }
    if (!answer.ok) throw await errorOf(answer);
    return answer.status === 204 ? undefined : ((await answer.json()) as unknown);
  };
  const at = (id: string) => `/${encodeURIComponent(id)}`;
  return {
    async list(query) {
      const body = await call("GET", `?limit=${page}${query === "" ? "" : `&q=${encodeURIComponent(query)}`}`);
      return (Array.isArray(body) ? body : []).flatMap((c: unknown) => conversationOf(c));
    },
    async read(id) {
      const body = (await call("GET", at(id))) as { title?: unknown; messages?: unknown };
      return { title: typeof body?.title === "string" ? body.title : "", messages: messagesOf(body?.messages) };
    },
    async create(title, messages) {
      const body = (await call("POST", "", { title, messages })) as { id?: unknown };
      if (typeof body?.id !== "string") throw unreachable();
      return body.id;
    },
    save: async (id, changed) => void (await call("PUT", at(id), changed)),
    remove: async (id) => void (await call("DELETE", at(id))),
  };
}

function conversationOf(c: unknown): Conversation[] {
  if (typeof c !== "object" || c === null) return [];
  const { id, title, updated_at } = c as Record<string, unknown>;
  if (typeof id !== "string") return [];
  return [{ id, title: typeof title === "string" && title !== "" ? title : "New conversation", updated: typeof updated_at === "string" ? Date.parse(updated_at) || 0 : 0 }];
}
