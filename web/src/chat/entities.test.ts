// Files that are attached to a conversation: before its session is there, while it is made, and after.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient } from "../api/client.ts";
import type { EntityRef } from "../api/types.gen.ts";
import { FakeParley } from "../testing/fake.ts";
import { Listed } from "./listed.ts";

const pricing = { path: "docs/pricing.md", title: "Pricing" };
const rota = { path: "docs/on-call.md", title: "On call" };

let server: FakeParley;
let chat: Listed;
/** What was attached by each request that said so. */
let sent: [method: string, paths: string[]][];
/** Called before a session is made. */
let making: (() => void) | undefined;

const attached = () => chat.store.getState().opened.records.entities.map((e) => e.path);
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(async () => {
  vi.useFakeTimers();
  server = new FakeParley();
  [sent, making] = [[], undefined];
  let ids = 0;
  const client = createClient("http://parley.test/", (input, init) => {
    const got = init?.body ? (JSON.parse(String(init.body)) as { attached_entities?: EntityRef[] }).attached_entities : undefined;
    if (got) sent.push([init?.method ?? "", got.map((e) => e.path)]);
    if (init?.method === "POST" && input.endsWith("/v1/sessions")) making?.();
    return server.fetch(input, init);
  });
  chat = new Listed({ client, app: "chaos", uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
  await chat.refresh();
});
afterEach(() => {
  chat.close();
  vi.useRealTimers();
});

test("a new conversation is made with them, and attaching alone makes none", async () => {
  expect(await chat.setEntities([pricing])).toBe(true);
  expect(await chat.setEntities([pricing, rota])).toBe(true);
  expect([attached(), server.sessions.size]).toEqual([[pricing.path, rota.path], 0]);
  await chat.send("What does it cost?");
  await settle();
  expect(sent).toEqual([["POST", [pricing.path, rota.path]]]);
  expect(attached(), "as its log says").toEqual([pricing.path, rota.path]);
});

test("they belong to one conversation: the next new one has none", async () => {
  await chat.setEntities([pricing]);
  await chat.send("What does it cost?");
  await settle();
  chat.newChat();
  expect(attached()).toEqual([]);
  await chat.send("And who is on call?");
  await settle();
  expect(sent).toHaveLength(1);
});

test("in a conversation that is there they are replaced, also by none, and the log says so", async () => {
  await chat.send("Hello");
  await settle();
  expect(await chat.setEntities([pricing])).toBe(true);
  await settle();
  expect(attached()).toEqual([pricing.path]);
  await chat.setEntities([]);
  await settle();
  expect([attached(), sent]).toEqual([[], [["PATCH", [pricing.path]], ["PATCH", []]]]);
});

test("what is refused changes nothing, and says why", async () => {
  await chat.send("Hello");
  await settle();
  server.intercept = (method) => (method === "PATCH" ? new Response(JSON.stringify({ error: { code: "not_found", message: "there is no docs/pricing.md" } }), { status: 404 }) : undefined);
  expect(await chat.setEntities([pricing])).toBe(false);
  await settle();
  expect([attached(), chat.store.getState().problem?.message]).toEqual([[], "there is no docs/pricing.md"]);
});

test("what is detached while the session is made is not attached to it", async () => {
  await chat.setEntities([pricing, rota]);
  making = () => void chat.setEntities([rota]);
  await chat.send("Who is on call?");
  await settle();
  expect(sent).toEqual([["POST", [pricing.path, rota.path]], ["PATCH", [rota.path]]]);
  expect(attached()).toEqual([rota.path]);
});

test("a first message that is refused leaves them for the next try", async () => {
  await chat.setEntities([pricing]);
  let refused = false;
  server.intercept = (method, path) => {
    if (refused || method !== "POST" || !path.endsWith("/turns")) return undefined;
    refused = true;
    return new Response(JSON.stringify({ error: { code: "rate_limited", message: "the budget of today is spent" } }), { status: 429 });
  };
  await chat.send("What does it cost?");
  await settle();
  expect([server.sessions.size, attached()]).toEqual([0, [pricing.path]]);
  await chat.sendAgain();
  await settle();
  expect(sent).toEqual([["POST", [pricing.path]], ["POST", [pricing.path]]]);
  expect(attached()).toEqual([pricing.path]);
});
