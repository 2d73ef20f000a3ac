// The runtime of a conversation: a new one is made with it, an old one is moved between turns.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient } from "../api/client.ts";
import { FakeParley } from "../testing/fake.ts";
import { Listed } from "./listed.ts";

let server: FakeParley;
let chat: Listed;
let sent: [method: string, runtime: string][];

const runtime = () => chat.store.getState().opened.records.runtime;
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(async () => {
  vi.useFakeTimers();
  server = new FakeParley();
  sent = [];
  let ids = 0;
  const client = createClient("http://parley.test/", (input, init) => {
    const got = init?.body ? (JSON.parse(String(init.body)) as { runtime?: string }).runtime : undefined;
    if (got !== undefined) sent.push([init?.method ?? "", got]);
    return server.fetch(input, init);
  });
  chat = new Listed({ client, app: "chaos", uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
  await chat.refresh();
});
afterEach(() => {
  chat.close();
  vi.useRealTimers();
});

test("a new conversation is made with the one that was chosen, and the next has the app's again", async () => {
  await chat.setRuntime("claude");
  expect([runtime(), server.sessions.size]).toEqual(["claude", 0]);
  await chat.send("Hello");
  await settle();
  expect([sent, runtime()]).toEqual([[["POST", "claude"]], "claude"]);
  chat.newChat();
  expect(runtime()).toBe("");
});

test("one that is there is moved, also back to the app's, as its log says", async () => {
  await chat.send("Hello");
  await settle();
  await chat.setRuntime("claude");
  await settle();
  expect(runtime()).toBe("claude");
  await chat.setRuntime("");
  await settle();
  expect([runtime(), sent]).toEqual(["", [["PATCH", "claude"], ["PATCH", ""]]]);
});

test("while a turn is open it stays, and the reason is said", async () => {
  await chat.send("Hello");
  await settle();
  const message = "a turn is open, and a session gets another runtime between turns only";
  server.intercept = (method) => (method === "PATCH" ? new Response(JSON.stringify({ error: { code: "busy", message } }), { status: 409 }) : undefined);
  await chat.setRuntime("claude");
  await settle();
  expect([runtime(), chat.store.getState().problem?.message]).toEqual(["", message.replace("session", "conversation")]);
});
