import { beforeEach, expect, test } from "vitest";

import type { Fetch } from "../api/client.ts";
import { Slots } from "../api/slots.ts";
import { connectIn, ParleyError } from "./client.ts";

interface Request {
  method: string;
  path: string;
  key: string;
  body: unknown;
}

let asked: Request[];
let answers: ((r: Request, signal: AbortSignal | null | undefined) => Response)[];
let slept: number;

const json = (status: number, body?: unknown): Response => new Response(body === undefined ? null : JSON.stringify(body), { status });
const gone = () => json(404, { error: { code: "not_found", message: "there is no such conversation" } });
const lost = (): Response => {
  throw new TypeError("fetch failed");
};
/** A stream that ends after its frames. The last may be cut off within. */
const stream = (...frames: string[]) => new Response(frames.join(""), { headers: { "Content-Type": "text/event-stream" } });
const whole = (version: number) => `event: conversation\ndata: {"id":"mine","version":${version}}\n\n`;
const change = (seq: number, status: string) => `id: ${seq}\nevent: status\ndata: {"seq":${seq},"turn_id":"t","status":"${status}"}\n\n`;
const text = (said: string) => `event: content\ndata: {"turn_id":"t","streaming_content":"${said}"}\n\n`;

const fetch: Fetch = async (input, init) => {
  await Promise.resolve();
  const url = new URL(input);
  const r = {
    method: init?.method ?? "GET",
    path: url.pathname + url.search,
    key: new Headers(init?.headers).get("Idempotency-Key") ?? "",
    body: init?.body ? (JSON.parse(String(init.body)) as unknown) : undefined,
  };
  asked.push(r);
  const answer = answers.shift();
  if (!answer) throw new Error(`unexpected: ${r.method} ${r.path}`);
  return answer(r, init?.signal);
};

const slots = new Slots();
const talks = () =>
  connectIn({ fetch, slots, base: "http://parley.test/", schedule: (f) => void setTimeout(f), sleep: () => Promise.resolve(void slept++) }, { app: "major" }).conversations;

beforeEach(() => {
  asked = [];
  answers = [];
  slept = 0;
});

test("each method makes its request", async () => {
  const kept = { id: "mine/1 ü", title: "Plans" };
  answers = [() => json(201, kept), () => json(200, { conversations: [kept], next: "c2" }), () => json(200, { conversations: [] }), () => json(200, kept), () => json(200, kept), () => json(204)];
  const one = "/v1/conversations/mine%2F1%20%C3%BC?app=major";
  expect(await talks().create({ id: "mine/1 ü", title: "Plans" })).toEqual(kept);
  expect(await talks().list({ cursor: "c&1", limit: 2 })).toEqual({ conversations: [kept], next: "c2" });
  expect(await talks().list()).toEqual({ conversations: [] });
  expect(await talks().read("mine/1 ü")).toEqual(kept);
  expect(await talks().update("mine/1 ü", { title: "Other" })).toEqual(kept);
  await talks().delete("mine/1 ü");
  expect(asked.map(({ method, path, body }) => [method, path, body])).toEqual([
    ["POST", "/v1/conversations", { id: "mine/1 ü", title: "Plans", app: "major" }],
    ["GET", "/v1/conversations?app=major&cursor=c%261&limit=2", undefined],
    ["GET", "/v1/conversations?app=major", undefined],
    ["GET", one, undefined],
    ["PATCH", one, { title: "Other" }],
    ["DELETE", one, undefined],
  ]);
});

test("a conversation whose answer was lost is made again with the same key", async () => {
  answers = [lost, () => json(201, { id: "s1" })];
  expect(await talks().create()).toEqual({ id: "s1" });
  expect(asked.length).toBe(2);
  expect(asked[0]?.key).not.toBe("");
  expect(asked[1]?.key).toBe(asked[0]?.key);
});

test("a conversation that is gone was deleted only if an answer was lost", async () => {
  answers = [lost, gone];
  await talks().delete("mine");
  answers = [gone];
  const error = await talks().delete("mine").catch((e: unknown) => e);
  expect(error).toBeInstanceOf(ParleyError);
  expect(error).toMatchObject({ code: "not_found", status: 404 });
});

test("following begins again behind the last change, and ends with a refusal", async () => {
  answers = [
    () => stream(whole(4), change(5, "streaming"), text("Hel"), "event: newer\ndata: 1\n\n", change(6, "idle").slice(0, -2)),
    lost,
    () => stream(whole(7), change(5, "streaming"), change(6, "idle")),
    () => json(503, { error: { code: "unavailable", message: "starting" } }),
    gone,
  ];
  const got: unknown[] = [];
  const error = await (async () => {
    for await (const f of talks().follow("mine")) got.push(f.conversation?.version ?? f.change?.seq ?? f.text?.streaming_content);
  })().catch((e: unknown) => e);
  expect(error).toMatchObject({ code: "not_found" });
  expect(got).toEqual([4, 5, "Hel", 7, 6]);
  expect(asked.map((r) => new URLSearchParams(r.path.split("?")[1]).get("after"))).toEqual([null, "5", "5", "6", "6"]);
  expect(slept).toBe(4);
});

test("whoever leaves the loop or aborts lets go of the connection", async () => {
  let cancelled = 0;
  const open = (_: Request, signal: AbortSignal | null | undefined) => {
    const body = new ReadableStream<Uint8Array>({
      start(c) {
        c.enqueue(new TextEncoder().encode(whole(1)));
        signal?.addEventListener("abort", () => {
          cancelled++;
          c.error(new DOMException("aborted", "AbortError"));
        });
      },
    });
    return new Response(body);
  };
  const held = [...Array(3).keys()].map(() => slots.take("session", () => {}));
  expect(held.every(Boolean)).toBe(true);
  held.forEach((release) => release?.());
  answers = [open, open];
  for await (const f of talks().follow("mine", { after: 9 })) {
    expect(f.conversation?.version).toBe(1);
    break;
  }
  expect(asked[0]?.path).toContain("after=9");
  await expect.poll(() => cancelled).toBe(1);
  const stop = new AbortController();
  let frames = 0;
  for await (const _ of talks().follow("mine", { signal: stop.signal })) if (++frames === 1) stop.abort();
  expect(frames).toBe(1);
  await expect.poll(() => cancelled).toBe(2);
  const again = [...Array(3).keys()].map(() => slots.take("session", () => {})); // all slots are free
  expect(again.every(Boolean)).toBe(true);
  again.forEach((release) => release?.());
});
