// What messages have attached, from the box to the log and back.

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient } from "../api/client.ts";
import { FakeParley } from "../testing/fake.ts";
import { Listed } from "./listed.ts";

const plan = { server: "shelf", uri: "file:///plan.md", title: "Garden plan" };
const diary = { server: "shelf", uri: "file:///diary.md", title: "Old diary" };

let server: FakeParley;
let sent: unknown[];
let chat: Listed;
/** The server does not accept messages yet, because it is still reading their resources. */
let held: boolean;

const opened = () => chat.store.getState().opened;
const shown = () => opened().exchanges.map((x) => [x.question, x.standing, x.resources?.map((r) => r.uri)]);
const refuse = (field: string, message = "the file was moved") => {
  server.intercept = (method, path) => {
    if (method !== "POST" || !path.endsWith("/turns")) return undefined;
    server.intercept = undefined;
    return new Response(JSON.stringify({ error: { code: "tool", message, field } }), { status: 502 });
  };
};

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeParley();
  sent = [];
  held = false;
  let ids = 0;
  const client = createClient("http://parley.test/", (input, init) => {
    if (init?.method === "POST" && input.endsWith("/turns")) {
      sent.push(JSON.parse(String(init.body)));
      if (held) return new Promise((_, refuse) => init.signal?.addEventListener("abort", () => refuse(new DOMException("aborted", "AbortError"))));
    }
    return server.fetch(input, init);
  });
  chat = new Listed({ client, app: "chaos", uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) }, { title: "", greeting: "", placeholder: "", pin: "" });
});
afterEach(() => {
  chat.close();
  vi.useRealTimers();
});

test("they are sent by server and URI, shown at once, and then as the log has them", async () => {
  const done = chat.send("What grows?", undefined, [plan, diary]);
  expect(shown()).toEqual([["What grows?", "sending", [plan.uri, diary.uri]]]);
  await done;
  await vi.advanceTimersByTimeAsync(0);
  expect(sent).toEqual([{ message: "What grows?", resources: [plan, diary] }]);
  expect(opened().exchanges[0]?.resources).toEqual([plan, diary]);
  expect(shown()).toEqual([["What grows?", "running", [plan.uri, diary.uri]]]);
});

test("a message without any says nothing of them", async () => {
  await chat.send("Hello");
  expect(sent).toEqual([{ message: "Hello" }]);
  expect(opened().exchanges[0]).not.toHaveProperty("resources");
});

test.each(["resources[1]", "message", "app"])("a message refused for %s goes back into the box, with its error", async (field) => {
  refuse(field);
  await chat.send("What grows?", undefined, [plan, diary]);
  expect(shown()).toEqual([]);
  expect(opened().back).toEqual({ text: "What grows?", attached: [plan, diary] });
  expect(chat.store.getState().problem?.message).toBe("the file was moved");
  await chat.send("What grows?", undefined, [plan]);
  await vi.advanceTimersByTimeAsync(0);
  expect(opened().back).toBeUndefined();
  expect(chat.store.getState().problem).toBeUndefined();
  expect(shown()).toEqual([["What grows?", "running", [plan.uri]]]);
});

test("of what may have arrived nothing is sent anew: the same message can be sent again, or edited", async () => {
  server.down = true;
  await chat.send("What grows?", undefined, [plan]);
  expect(shown()).toEqual([["What grows?", "unsent", [plan.uri]]]);
  expect(opened().back).toBeUndefined();
  server.down = false;
  refuse("");
  await chat.sendAgain();
  expect(shown()).toEqual([["What grows?", "unsent", [plan.uri]]]);
  expect(chat.takeBack()).toEqual({ text: "What grows?", attached: [plan] });
  expect(shown()).toEqual([]);
});

test("whoever stops while a server is read need not wait, and can send again", async () => {
  held = true;
  const done = chat.send("What grows?", undefined, [plan]);
  await vi.waitFor(() => expect(sent).toHaveLength(1));
  await chat.stop();
  await done;
  expect(shown()).toEqual([["What grows?", "unsent", [plan.uri]]]);
  expect(opened().exchanges[0]?.error?.message).toBe("You stopped this before it was sent.");
  expect(server.requests.filter((r) => r.includes("/cancel"))).toEqual([]);
  held = false;
  await chat.sendAgain();
  await vi.advanceTimersByTimeAsync(0);
  expect(shown()).toEqual([["What grows?", "running", [plan.uri]]]);
  expect(server.requests.filter((r) => r.includes("/cancel"))).toEqual([]);
});

test("what was accepted although somebody stopped it is cancelled when the log has it", async () => {
  held = true;
  const done = chat.send("What grows?", undefined, [plan]);
  await vi.waitFor(() => expect(sent).toHaveLength(1));
  await chat.stop();
  await done;
  const s = [...server.sessions.values()][0];
  server.begin(s?.id ?? "", "What grows?", undefined, [plan]);
  await vi.advanceTimersByTimeAsync(100);
  expect(shown()).toEqual([["What grows?", "cancelled", [plan.uri]]]);
});

test("the list has all pages, and says what is missing", async () => {
  server.intercept = (_, path) => {
    if (!path.endsWith("/resources")) return undefined;
    const first = !server.requests.at(-1)?.includes("cursor");
    const failed = [{ server: "attic", error: { code: "tool", message: "it ended" } }];
    return new Response(JSON.stringify(first ? { resources: [plan], failed, cut: ["shelf"], next: "a b" } : { resources: [diary], failed }), { status: 200 });
  };
  expect(await chat.resources()).toEqual({ resources: [plan, diary], failed: [{ server: "attic", error: { code: "tool", message: "it ended" } }], cut: true });
  expect(server.requests.at(-1)).toContain("?cursor=a%20b");
});
