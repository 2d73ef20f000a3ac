// The conversations of an app, as /v1/conversations has them, for pages that keep conversations and need no log.

import type * as Public from "../../public/parley/client.d.ts";
import { errorOf, toApiError, type Client } from "../api/client.ts";
import { SSEParser, type SSEFrame } from "../api/sse.ts";
import { isFinal, silence, streamOrError } from "../api/stream.ts";
import { newUUID } from "../chat/uuid.ts";

const firstWait = 300;
const longestWait = 15_000;
/** While other tabs hold all the slots for streams, a stream is open this long, and then closed for that long. */
const look = 500;
const rest = 1500;

export interface Env {
  sleep: (ms: number) => Promise<void>;
  patiently: <T>(request: () => Promise<T>) => Promise<T>;
}

export function conversationsOf(env: Env, client: Client, app: string): Public.Conversations {
  const at = (id: string, rest = "") => `v1/conversations/${encodeURIComponent(id)}${rest}?app=${encodeURIComponent(app)}`;
  return {
    create(fields = {}) {
      // With the same key, a request that is repeated because its answer was lost gets the same conversation.
      const key = newUUID();
      return env.patiently(async () => (await client.request("POST", "v1/conversations", { body: { ...fields, app }, key })) as Public.KeptConversation);
    },
    async list({ cursor, limit } = {}) {
      const query = new URLSearchParams({ app, ...(cursor && { cursor }), ...(limit && { limit: String(limit) }) });
      return (await env.patiently(() => client.request("GET", `v1/conversations?${query}`))) as Public.ConversationPage;
    },
    read: async (id) => (await env.patiently(() => client.request("GET", at(id)))) as Public.KeptConversation,
    update: async (id, fields) => (await env.patiently(() => client.request("PATCH", at(id), { body: fields }))) as Public.KeptConversation,
    async delete(id) {
      let again = false; // the answer of an attempt was lost, so it may be gone already
      await env.patiently(async () => {
        try {
          await client.request("DELETE", at(id));
        } catch (cause) {
          if (again && toApiError(cause).code === "not_found") return;
          again = true;
          throw cause;
        }
      });
    },
    follow: (id, { after = 0, signal } = {}) => follow(env, client, (from) => at(id, "/stream") + (from > 0 ? `&after=${from}` : ""), after, signal),
  };
}

async function* follow(env: Env, client: Client, path: (after: number) => string, after: number, signal: AbortSignal | undefined): AsyncGenerator<Public.ConversationFrame, void, void> {
  let at = after;
  for (let failures = 0; !signal?.aborted; ) {
    const here = new AbortController();
    const end = () => here.abort("ended");
    signal?.addEventListener("abort", end);
    const release = client.slots.take("session", end);
    let wait = 0;
    try {
      for await (const raw of streamed(client, path(at), here, release ? 0 : look)) {
        const frame = frameOf(raw);
        if (!frame) continue;
        failures = 0;
        if (frame.change) {
          if (frame.change.seq <= at) continue;
          at = frame.change.seq;
        } else if (frame.conversation && at === 0) at = frame.conversation.version;
        yield frame;
      }
    } catch (cause) {
      const error = toApiError(cause);
      if (!here.signal.aborted && isFinal(error)) throw error;
      wait = error.retryAfterMs;
    } finally {
      signal?.removeEventListener("abort", end);
      release?.();
      end(); // lets go of the body, also when the reader has left the loop
    }
    if (signal?.aborted) return;
    const backoff = Math.min(longestWait, firstWait * 2 ** failures++);
    const waited = new AbortController();
    const stopped = new Promise<void>((done) => signal?.addEventListener("abort", () => done(), { signal: waited.signal }));
    await Promise.race([env.sleep(Math.max(wait, release ? firstWait / 2 + backoff * Math.random() : rest)), stopped]);
    waited.abort();
  }
}

/** The frames of one connection, which ends when it is silent; with a limit, that many ms after its first frames. */
async function* streamed(client: Client, path: string, here: AbortController, limit: number): AsyncGenerator<SSEFrame, void, void> {
  let quiet: ReturnType<typeof setTimeout> | undefined;
  let over: ReturnType<typeof setTimeout> | undefined;
  const alive = () => {
    clearTimeout(quiet);
    quiet = setTimeout(() => here.abort("silence"), silence);
  };
  alive();
  try {
    const response = await client.fetch(client.base + path, { headers: { Accept: streamOrError }, signal: here.signal, cache: "no-store", credentials: "same-origin" });
    if (!response.ok) throw await errorOf(response);
    if (!response.body) return;
    const body = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new SSEParser();
    for (;;) {
      const { done, value } = await body.read();
      if (done) return;
      alive();
      if (limit > 0) over ??= setTimeout(() => here.abort("looked"), limit);
      yield* parser.push(value);
    }
  } finally {
    clearTimeout(quiet);
    clearTimeout(over);
  }
}

/** What a frame of the wire is; undefined if it is of a kind newer than this client. */
function frameOf(raw: SSEFrame): Public.ConversationFrame | undefined {
  switch (raw.event) {
    case "conversation":
      return { conversation: JSON.parse(raw.data) as Public.KeptConversation };
    case "status":
      return { change: JSON.parse(raw.data) as Public.ConversationChange };
    case "content":
      return { text: JSON.parse(raw.data) as Public.ConversationText };
  }
  return undefined;
}
