// An open page follows its app, whose files may change while it is open.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient } from "../api/client.ts";
import { FakeParley } from "../testing/fake.ts";
import { followApp } from "./follow.ts";
import { Listed } from "./listed.ts";

let server: FakeParley;
let chat: Listed;
let app: object;
let status: number;

const now = () => chat.store.getState();
const settle = () => vi.advanceTimersByTimeAsync(0);
const read = () => server.requests.filter((r) => r === "GET v1/apps/chaos").length;

beforeEach(async () => {
  vi.useFakeTimers();
  server = new FakeParley();
  app = { name: "chaos", title: "Before", model: { name: "m", scripted: true }, examples: [], notices: [] };
  status = 200;
  server.intercept = (method, path) => (method === "GET" && path === "v1/apps/chaos" ? new Response(JSON.stringify(app), { status }) : undefined);
  let ids = 0;
  chat = new Listed({ client: createClient("http://parley.test/", server.fetch), app: "chaos", uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
  await chat.refresh();
});
afterEach(() => {
  chat.close();
  vi.useRealTimers();
});

const changed = { name: "chaos", title: "After", model: { name: "m", scripted: true }, examples: ["New?"], notices: ["Mended."], page: { accent: "#00aa00", logo: false } };

test("when the tab is seen again, the app is read again", async () => {
  expect(now().app?.title).toBe("Before");
  app = changed;
  chat.visible(true);
  await settle();
  expect(now().app).toEqual(changed);
});

test("after a turn, the app is read again, once", async () => {
  await chat.send("Hello");
  await settle();
  app = changed;
  expect(read()).toBe(1);
  const [session] = [...server.sessions.values()];
  const turn = session?.events.find((e) => e.type === "turn.started")?.turn ?? "";
  server.emit(session?.id ?? "", "turn.completed", { turn, data: { usage: { input_tokens: 0, output_tokens: 0 }, response: { message: "Hi" } } });
  await settle();
  expect([now().app?.title, read()]).toEqual(["After", 2]);
});

test("an app that is the same stays the same object, so nothing is drawn again; two reads at once are one", async () => {
  const before = now().app;
  await Promise.all([chat.refreshApp(), chat.refreshApp()]);
  expect(now().app).toBe(before);
  expect(read()).toBe(2);
});

test("an app that is no longer served says so, and comes back", async () => {
  status = 404;
  const was = app;
  app = { error: { code: "not_found", message: "there is no app" } };
  await chat.refreshApp();
  expect(now().refused?.message).toBe("there is no app");
  [status, app] = [200, was];
  await chat.refreshApp();
  expect(now().refused).toBeUndefined();
});

test("a page that nobody touches notices that its app was mended, while it can be seen", async () => {
  let seen = true;
  const end = followApp(chat, () => seen);
  app = { ...app, notices: ["This app has mistakes"] };
  await vi.advanceTimersByTimeAsync(10_000);
  expect(now().app?.notices).toEqual(["This app has mistakes"]);
  app = changed;
  seen = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(now().app?.notices, "nobody sees it").toEqual(["This app has mistakes"]);
  seen = true;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(now().app).toEqual(changed);
  const reads = read();
  end();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(read()).toBe(reads);
});

test("a new conversation has the app's mode, unless somebody chose one", async () => {
  app = { ...changed, mode: "acceptEdits" };
  await chat.refreshApp();
  expect(now().opened.records.mode).toBe("acceptEdits");
  chat.newChat();
  expect(now().opened.records.mode).toBe("acceptEdits");
  await chat.setMode("default");
  app = { ...app, title: "Again" };
  await chat.refreshApp();
  expect(now().opened.records.mode).toBe("default");
});
