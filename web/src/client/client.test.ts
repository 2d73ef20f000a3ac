import { beforeEach, expect, test } from "vitest";

import type { Fetch } from "../api/client.ts";
import { Slots } from "../api/slots.ts";
import { FakeParley } from "../testing/fake.ts";
import { connectIn, ParleyError } from "./client.ts";

let server: FakeParley;
let slept: (() => void)[];
/** Whether the answer to a request is lost after the server has carried the request out. */
let lose: (method: string, path: string) => boolean;

const fetch: Fetch = async (input, init) => {
  const answer = await server.fetch(input, init);
  if (lose(init?.method ?? "GET", new URL(input).pathname)) throw new TypeError("fetch failed");
  return answer;
};

const open = (name?: string, key?: string) =>
  connectIn(
    { fetch, slots: new Slots(), base: "http://parley.test/", schedule: (f) => void setTimeout(f), sleep: () => new Promise((done) => slept.push(done)) },
    { app: "chaos", ...(key && { key }) },
  ).open(name);

beforeEach(() => {
  server = new FakeParley();
  slept = [];
  lose = () => false;
});

test("a message whose answer was lost is sent again with the same key, and is there once", async () => {
  const talk = await open("mine");
  lose = (method, path) => method === "POST" && path.endsWith("/turns");
  const sent = talk.send("Hello");
  await expect.poll(() => slept.length).toBe(1);
  lose = () => false;
  slept[0]?.();
  const turn = await sent;
  await expect.poll(() => talk.state.turns.map((t) => [t.id, t.message])).toEqual([[turn, "Hello"]]);
  expect(server.requests.filter((r) => r.startsWith("POST") && r.endsWith("/turns")).length).toBe(2);
  talk.close();
});

test("while the server is away a message waits for it", async () => {
  const talk = await open("mine");
  server.down = true;
  const sent = talk.send("Hello");
  await expect.poll(() => slept.length).toBe(1);
  server.down = false;
  slept[0]?.();
  await sent;
  await expect.poll(() => talk.state.turns.length).toBe(1);
  expect(server.requests.filter((r) => r.startsWith("POST") && r.endsWith("/turns")).length).toBe(2);
  talk.close();
});

test("resources go with a message, and a message that cannot have them is not tried again", async () => {
  const talk = await open("mine");
  const plan = { server: "shelf", uri: "file:///garden plan.md", title: "Garden plan" };
  server.intercept = (method, path) =>
    method === "POST" && path.endsWith("/turns") ? new Response(JSON.stringify({ error: { code: "tool", message: "it was moved", field: "resources[0]" } }), { status: 502 }) : undefined;
  const error = await talk.send("What grows?", { resources: [plan] }).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "tool", message: "it was moved" });
  expect(slept).toEqual([]);
  server.intercept = undefined;
  await talk.send("What grows?", { resources: [plan] });
  await expect.poll(() => talk.state.turns.map((t) => t.resources)).toEqual([[plan]]);
  talk.close();
});

test("a refusal is not tried again, and says what is wrong", async () => {
  server.intercept = (method) =>
    method === "POST" ? new Response(JSON.stringify({ error: { code: "forbidden", message: "no", hint: "ask" } }), { status: 403 }) : undefined;
  const error = await open().catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ParleyError);
  expect(error).toMatchObject({ code: "forbidden", message: "no", hint: "ask", status: 403 });
  expect(slept.length).toBe(0);
});
