// The client for pages that others write, built as one file: /parley/client.js. What it promises is in
// public/parley/client.d.ts, which is checked against this file. It follows and folds a session as our own pages do.

import type * as Public from "../../public/parley/client.d.ts";
import { ApiError, createClient, toApiError, type Client, type Fetch } from "../api/client.ts";
import { sharedSlots, type Slots } from "../api/slots.ts";
import type { Interaction } from "../api/types.gen.ts";
import { newUUID } from "../chat/uuid.ts";
import { exchangesOf, isOpen, type Exchange } from "../session/exchange.ts";
import { beginAt } from "../session/live.ts";
import { perFrame, watch, type Schedule, type Watch } from "../session/session.ts";
import { conversationsOf } from "./conversations.ts";

/** How long a message is sent again while the server does not answer, and how often. */
const patience = 60_000;
const again = 1000;

export interface Env {
  fetch: Fetch;
  slots: Slots;
  base: string;
  schedule: Schedule;
  sleep: (ms: number) => Promise<void>;
}

const browser = (): Env => ({
  fetch: (input, init) => fetch(input, init),
  slots: sharedSlots(),
  base: new URL(/* @vite-ignore */ "/", import.meta.url).href,
  schedule: perFrame,
  sleep: (ms) => new Promise((done) => setTimeout(done, ms)),
});

/** Only this file makes one, so its constructor is not public. */
export const ParleyError = ApiError as unknown as typeof Public.ParleyError;

export const connect: typeof Public.connect = (options) => connectIn(browser(), options);

export function connectIn(env: Env, { app, key }: Public.Options): Public.Parley {
  const client = createClient(env.base, (input, init) => {
    if (!key) return env.fetch(input, init);
    const headers = new Headers(init?.headers);
    headers.set("Authorization", `Bearer ${key}`);
    return env.fetch(input, { ...init, headers });
  }, () => key !== undefined, env.slots);
  return {
    async open(name) {
      // With a name, a request that is repeated because its answer was lost gets the same session.
      const { id } = await patiently(env, () => client.createSession(app, name ?? newUUID()));
      const begin = beginAt(await patiently(env, () => client.window(id)));
      return conversation(env, client, id, begin);
    },
    conversations: conversationsOf({ sleep: env.sleep, patiently: (request) => patiently(env, request) }, client, app),
  };
}

/** Makes a request that may be repeated until the server has answered it. */
async function patiently<T>(env: Env, request: () => Promise<T>): Promise<T> {
  for (let waited = 0; ; waited += again) {
    try {
      return await request();
    } catch (cause) {
      const error = toApiError(cause);
      // An error with a field is about the message, such as a resource that its server does not return.
      const passes = error.code === "unreachable" || error.code === "unavailable" || (error.status >= 502 && error.field === "");
      if (!passes || waited >= patience) throw error;
      await env.sleep(again);
    }
  }
}

function conversation(env: Env, client: Client, id: string, begin: ReturnType<typeof beginAt>): Public.Conversation {
  const listeners = new Set<(state: Public.State) => void>();
  let state = stateOf(undefined);
  const watching = watch(
    client,
    id,
    begin,
    (w) => {
      state = stateOf(w);
      for (const tell of [...listeners]) tell(state);
    },
    env.schedule,
  );
  return {
    id,
    get state() {
      return state;
    },
    subscribe(changed) {
      listeners.add(changed);
      changed(state);
      return () => void listeners.delete(changed);
    },
    async send(message, { resources = [] } = {}) {
      const key = newUUID();
      return (await patiently(env, () => client.send(id, message, key, { resources }))).id;
    },
    // Sending the same answer twice counts once, so it may be repeated.
    answer: async (question, answer) => void (await patiently(env, () => client.answer(question, answer))),
    async cancel(turn) {
      const open = turn ?? state.turns.findLast((t) => t.open)?.id;
      if (open) await patiently(env, () => client.cancel(open, "stopped on the page"));
    },
    older: watching.older,
    close() {
      listeners.clear();
      watching.close();
    },
  };
}

function stateOf(w: Watch | undefined): Public.State {
  if (!w) return { connection: "connecting", turns: [], questions: [] };
  const { transcript, live, records } = w.view;
  const { connection } = w;
  return {
    connection: connection.state === "paused" ? "waiting" : connection.state,
    ...(connection.state === "refused" && { error: connection.error }),
    turns: exchangesOf(transcript.turns, live, records).map(turnOf),
    questions: (transcript.turns ?? []).flatMap((t) => (t.interactions ?? []).map(questionOf)),
  };
}

function turnOf(x: Exchange): Public.Turn {
  const outcomes = new Map(x.steps.filter((s) => s.type === "tool_result").map((s) => [s.call, s.outcome]));
  return {
    id: x.id,
    message: x.question,
    resources: x.resources ?? [],
    answer: x.answer,
    status: x.standing as Public.Turn["status"], // the others belong to messages that only our own pages keep
    open: isOpen(x.standing),
    calls: x.steps
      .filter((s) => s.type === "tool_call")
      .map((s) => {
        const outcome = outcomes.get(s.call);
        return { id: s.call ?? "", tool: s.tool ?? "", input: s.input, ...(outcome && { outcome }) };
      }),
    scripted: x.models.length > 0 && x.models.every((m) => m.startsWith("scripted/")),
    ...(x.error && { error: x.error }),
  };
}

function questionOf(i: Interaction): Public.Question {
  return {
    id: i.id,
    turn: i.turn,
    kind: i.kind,
    title: i.title,
    ...(i.text && { text: i.text }),
    ...(i.tool && { tool: i.tool }),
    ...(i.input !== undefined && { input: i.input }),
    choices: i.choices ?? [],
    asks: (i.questions ?? []).map((q) => ({ question: q.question, header: q.header, options: q.options ?? [], multiple: q.multi_select ?? false })),
  };
}
