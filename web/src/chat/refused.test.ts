// A first message that the server refuses: nothing is left of the session that was made for it.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient } from "../api/client.ts";
import { FakeParley } from "../testing/fake.ts";
import { Listed } from "./listed.ts";

const plan = { server: "shelf", uri: "file:///plan.md", title: "Garden plan" };

let server: FakeParley;
let chat: Listed;
/** The bodies of the requests that made sessions. */
let made: unknown[];

const opened = () => chat.store.getState().opened;
const shown = () => opened().exchanges.map((x) => [x.question, x.standing]);
const entries = () => chat.store.getState().entries?.map((e) => e.name);
const isSend = (method: string, path: string) => method === "POST" && path.endsWith("/turns");
const refuse = (status: number, error: object, meanwhile = () => {}) => {
  server.intercept = (method, path) => {
    if (!isSend(method, path)) return undefined;
    server.intercept = undefined;
    meanwhile();
    return new Response(JSON.stringify({ error }), { status });
  };
};
const settle = () => vi.advanceTimersByTimeAsync(0);

beforeEach(async () => {
  vi.useFakeTimers();
  server = new FakeParley();
  made = [];
  let ids = 0;
  const client = createClient("http://parley.test/", (input, init) => {
    if (init?.method === "POST" && input.endsWith("/v1/sessions")) made.push(JSON.parse(String(init.body)));
    return server.fetch(input, init);
  });
  chat = new Listed({ client, app: "chaos", uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
  await chat.refresh();
});
afterEach(() => {
  chat.close();
  vi.useRealTimers();
});

test.each([
  [400, { code: "invalid", message: "there is no MCP server \"attic\"", field: "resources[0].server" }],
  [404, { code: "not_found", message: "there is no app \"chaos\"" }],
  [429, { code: "rate_limited", message: "the budget of today is spent" }],
  [502, { code: "tool", message: "the file was moved", field: "resources[0]" }],
])("with %i", async (status, error) => {
  refuse(status, error);
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, entries()]).toEqual([0, []]);
  expect([opened().phase, shown()]).toEqual(["new", [["What grows?", "unsent"]]]);
  expect(opened().exchanges[0]?.error?.message).toBe(error.message);
  await chat.sendAgain();
  await settle();
  expect([server.sessions.size, shown(), entries()?.length]).toEqual([1, [["What grows?", "running"]], 1]);
});

test("the message is back in the box, and the chat is a new one", async () => {
  refuse(502, { code: "tool", message: "the file was moved", field: "resources[0]" });
  await chat.send("What grows?", undefined, [plan]);
  await settle();
  expect([server.sessions.size, entries(), opened().phase, shown()]).toEqual([0, [], "new", []]);
  expect(opened().back).toEqual({ text: "What grows?", attached: [plan] });
});

test("a message that is too long is back in the box, where it can be shortened, and is not sent again as it is", async () => {
  refuse(413, { code: "too_large", message: "the message is longer than 256 KiB", field: "message" });
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, entries(), opened().phase, shown()]).toEqual([0, [], "new", []]);
  expect(opened().back).toEqual({ text: "What grows?", attached: [] });
  expect(chat.store.getState().problem?.message).toBe("the message is longer than 256 KiB");
});

test("what was chosen for the chat is chosen still", async () => {
  await chat.setMode("plan");
  await chat.setModel("test/other");
  refuse(400, { code: "invalid", message: "no" });
  await chat.send("What grows?");
  await settle();
  expect(opened().records).toMatchObject({ mode: "plan", model: "test/other" });
  await chat.sendAgain();
  const body = { app: "chaos", outside_id: opened().id, mode: "plan", model: "test/other" };
  expect(made).toEqual([body, body]);
});

test("a message that may have been accepted loses nothing", async () => {
  refuse(503, { code: "unavailable", message: "later" });
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["What grows?", "unsent"]]]);
  await chat.sendAgain();
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["What grows?", "running"]]]);
});

test("a session stays in which somebody else has begun a turn meanwhile", async () => {
  refuse(409, { code: "busy", message: "a turn is running" }, () => server.begin([...server.sessions.keys()][0] ?? "", "From a terminal"));
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["From a terminal", "running"], ["What grows?", "unsent"]]]);
});

test("a session stays that was made for something else", async () => {
  await chat.setPins([{ id: "p", text: "The launch is on 3 March." }] as never);
  refuse(400, { code: "invalid", message: "no" });
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, opened().phase]).toEqual([1, "live"]);
});

test("a session that cannot be deleted is used by the next attempt", async () => {
  refuse(400, { code: "invalid", message: "no" }, () => {
    server.intercept = (method) => (method === "DELETE" ? new Response("{}", { status: 503 }) : undefined);
  });
  await chat.send("What grows?");
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["What grows?", "unsent"]]]);
  await chat.sendAgain();
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["What grows?", "running"]]]);
});

test("a later message that is refused leaves the session as it is", async () => {
  await chat.send("What grows?");
  const [id = ""] = server.sessions.keys();
  await settle();
  server.answer(id, server.sessions.get(id)?.events.at(-1)?.turn ?? "", ["Tomatoes."]);
  await vi.advanceTimersByTimeAsync(100);
  refuse(413, { code: "too_large", message: "no", field: "message" });
  await chat.send("And?");
  await settle();
  expect([server.sessions.size, shown()]).toEqual([1, [["What grows?", "completed"]]]);
  expect(opened().back?.text).toBe("And?");
});

test("a message to a session that is still being opened by its address goes into it", async () => {
  await chat.send("What grows?");
  await settle();
  const id = [...server.sessions.keys()][0] ?? "";
  const other = new Listed({ client: createClient("http://parley.test/", server.fetch), app: "chaos", uuid: () => "uuid-other", schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
  await Promise.all([other.open(id), other.send("And what else?")]);
  await settle();
  expect([...server.sessions.keys()]).toEqual([id]);
  expect(made.length).toBe(1);
  other.close();
});
