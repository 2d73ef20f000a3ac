import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { createClient } from "../../api/client.ts";
import { FakeParley } from "../../testing/fake.ts";
import { Chaos } from "./state.ts";
import { previewOf, sessionsKey, shown, type Session } from "./storage.ts";

/** A localStorage with room for a given number of characters. */
class Memory implements Storage {
  readonly #items = new Map<string, string>();
  room = Infinity;
  get length() {
    return this.#items.size;
  }
  key = (i: number) => [...this.#items.keys()][i] ?? null;
  getItem = (k: string) => this.#items.get(k) ?? null;
  removeItem = (k: string) => void this.#items.delete(k);
  clear = () => this.#items.clear();
  setItem = (k: string, v: string) => {
    if (v.length > this.room) throw new DOMException("full", "QuotaExceededError");
    this.#items.set(k, v);
  };
}

describe("Chaos", () => {
  let server: FakeParley;
  let storage: Memory;
  let pages: Chaos[];
  let ids = 0;

  /** A page after a reload: it has only the storage of the previous page. */
  function page(): Chaos {
    for (const p of pages) p.close();
    const chaos = new Chaos({
      client: createClient("http://parley.test/", server.fetch),
      storage,
      uuid: () => `uuid-${++ids}`,
      schedule: (f) => queueMicrotask(f),
    });
    pages.push(chaos);
    return chaos;
  }
  const settle = () => vi.advanceTimersByTimeAsync(0);
  const opened = (c: Chaos) => c.store.getState().opened;
  const shown = (c: Chaos) => opened(c).exchanges.map((x) => [x.question, x.standing, x.answer]);
  const stored = () => JSON.parse(storage.getItem(sessionsKey) ?? "[]") as Session[];

  beforeEach(() => {
    vi.useFakeTimers();
    server = new FakeParley();
    storage = new Memory();
    pages = [];
    ids = 0;
  });
  afterEach(() => {
    for (const p of pages) p.close();
    vi.useRealTimers();
  });

  test("of a long session the last turns are read, and older ones when they are asked for", async () => {
    const s = server.create("long");
    for (let i = 0; i < 11; i++) server.answer(s.id, server.begin(s.id, `question ${i}`), [`answer ${i}`]);
    const log = s.events.length;
    const c = page();
    await c.refresh();
    await c.open("long");
    await settle();
    const numbers = () => opened(c).exchanges.map((x) => Number(x.answer.replace("answer ", "")));
    expect(numbers()).toEqual([7, 8, 9, 10]);
    expect(opened(c).older).toBe("more");
    expect(server.requests.filter((r) => r.includes("/events"))).toEqual([`GET v1/sessions/${s.id}/events?after=${log - 20}`]);
    expect(stored()[0]?.messages).toHaveLength(8);

    const last = opened(c).exchanges.at(-1);
    await c.older();
    await settle();
    expect(numbers()).toEqual([3, 4, 5, 6, 7, 8, 9, 10]);
    expect(opened(c).exchanges.at(-1), "what was drawn stays the same").toBe(last);
    server.down = true;
    await c.older();
    expect(opened(c).older).toBe("failed");
    server.down = false;
    await Promise.all([c.older(), c.older()]);
    await settle();
    expect(numbers()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(opened(c).older).toBe("none");

    server.answer(s.id, server.begin(s.id, "question 11"), ["answer 11"]);
    await settle();
    expect(numbers().at(-1)).toBe(11);
    expect(stored()[0]?.messages).toHaveLength(24);
    const again = page();
    await again.refresh();
    await again.open("long");
    await settle();
    expect(opened(again).exchanges).toHaveLength(4);
    expect(stored()[0]?.messages, "what this browser has is kept").toHaveLength(24);
  });

  test("a message that was sent is found among the turns behind those that were there, older ones or not", async () => {
    const s = server.create("long");
    for (let i = 0; i < 6; i++) server.answer(s.id, server.begin(s.id, "again?"), ["yes"]);
    const c = page();
    await c.refresh();
    await c.open("long");
    await settle();
    server.intercept = (method, path) => (method === "POST" && path.endsWith("/turns") ? new Response("", { status: 502 }) : undefined);
    await c.send("again?");
    server.intercept = undefined;
    await c.older();
    await settle();
    expect(shown(c).map(([, standing]) => standing)).toEqual(["completed", "completed", "completed", "completed", "completed", "completed", "unsent"]);
  });

  test("a message makes the session, is answered, and is in the list when it is done", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["Google ", "OAuth."]);
    const chaos = page();
    const id = opened(chaos).id;
    void chaos.send("What is the final spec of the login system, please?");
    expect(shown(chaos)).toEqual([["What is the final spec of the login system, please?", "sending", ""]]);
    await settle();
    expect(shown(chaos)).toEqual([["What is the final spec of the login system, please?", "completed", "Google OAuth."]]);
    expect(stored()).toEqual([
      {
        id,
        createdAt: expect.any(String),
        preview: "What is the final spec of the login syst",
        messages: [
          { id: expect.any(String), role: "user", content: "What is the final spec of the login system, please?", thoughts: [], isStreaming: false },
          { id: expect.any(String), role: "assistant", content: "Google OAuth.", thoughts: [{ type: "agent_start", agent: "interface" }], isStreaming: false },
        ],
      },
    ]);
  });

  test("a reload in the middle of the first answer finds it, and it goes on", async () => {
    const chaos = page();
    const id = opened(chaos).id;
    let where: [string, string] = ["", ""];
    server.onTurn = (s, t) => {
      where = [s, t];
      server.emit(s, "agent.started", { turn: t, agent: "interface", data: { name: "interface" } });
      server.emit(s, "model.started", { turn: t, agent: "interface", data: { call: "c", model: "m", context: "", reserved: { input_tokens: 0, output_tokens: 0 } } });
      server.delta(s, t, "interface", "c", "Goo");
    };
    void chaos.send("which?");
    await settle();
    expect(shown(chaos)).toEqual([["which?", "running", "Goo"]]);

    const again = page();
    await again.open(id);
    await settle();
    expect(shown(again)).toEqual([["which?", "running", "Goo"]]);
    server.delta(...where, "interface", "c", "gle");
    await settle();
    expect(shown(again)).toEqual([["which?", "running", "Google"]]);
  });

  test("a local conversation that the server lacks stays readable, and viewing it does not create it", async () => {
    storage.setItem(
      sessionsKey,
      JSON.stringify([
        {
          id: "old",
          createdAt: "2026-01-01T00:00:00Z",
          preview: "before",
          messages: [
            { id: "1", role: "user", content: "before", thoughts: [], isStreaming: false },
            { id: "2", role: "assistant", content: "after", thoughts: [{ type: "handoff", from: "interface", to: "scavenger" }], isStreaming: false },
          ],
        },
      ]),
    );
    const chaos = page();
    await chaos.open("old");
    await settle();
    expect(opened(chaos).phase).toBe("local");
    expect(shown(chaos)).toEqual([["before", "completed", "after"]]);
    expect(server.sessions.size).toBe(0);
    await chaos.remove("old");
    expect(stored()).toEqual([]);
  });

  test("a list that cannot be read is empty", () => {
    for (const bad of ["{", '{"a":1}', '[1,null,{"id":"x"}]']) {
      storage.setItem(sessionsKey, bad);
      expect(page().store.getState().sessions, bad).toEqual([]);
    }
  });

  test("when storage is full, the oldest conversations lose their messages", async () => {
    const long = "x".repeat(400);
    const old = (id: string, year: number) => ({
      id,
      createdAt: `${year}-01-01T00:00:00Z`,
      preview: id,
      messages: [{ id: "m", role: "user", content: long, thoughts: [], isStreaming: false }],
    });
    storage.setItem(sessionsKey, JSON.stringify([old("b", 2025), old("a", 2024)]));
    storage.room = 1200;
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const chaos = page();
    await chaos.send("hm?");
    await settle();
    expect(stored().map((s) => [s.preview, s.messages.length])).toEqual([
      ["hm?", 2],
      ["b", 1],
      ["a", 0],
    ]);
  });

  test("a message that did not get through is sent again under the same key", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const chaos = page();
    server.down = true;
    await chaos.send("there?");
    expect(shown(chaos)).toEqual([["there?", "unsent", ""]]);
    expect(opened(chaos).exchanges[0]?.error?.code).toBe("unreachable");
    server.down = false;
    await chaos.sendAgain();
    await settle();
    expect(shown(chaos)).toEqual([["there?", "completed", "yes"]]);
  });

  test("the answer to a send may be lost: asking again begins no second turn", async () => {
    let lose = true;
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const lossy = { fetch: async (input: string, init?: RequestInit) => {
      const answer = await server.fetch(input, init);
      if (lose && input.endsWith("/turns")) {
        lose = false;
        throw new TypeError("connection reset");
      }
      return answer;
    } };
    const chaos = new Chaos({ client: createClient("http://parley.test/", lossy.fetch), storage, schedule: (f) => queueMicrotask(f) });
    pages.push(chaos);
    await chaos.send("once?");
    await settle();
    expect(shown(chaos), "the log has it, whatever the network said").toEqual([["once?", "completed", "yes"]]);
    await chaos.sendAgain();
    await settle();
    expect(shown(chaos)).toEqual([["once?", "completed", "yes"]]);
  });

  test("a message can be taken back to be changed", async () => {
    const chaos = page();
    server.down = true;
    await chaos.send("a typo");
    expect(chaos.takeBack()).toEqual({ text: "a typo", attached: [] });
    expect(shown(chaos)).toEqual([]);
  });

  test("stop cancels the turn, even when it was asked for before the turn had an id", async () => {
    const chaos = page();
    void chaos.send("long?");
    void chaos.stop();
    await settle();
    expect(shown(chaos)).toEqual([["long?", "cancelled", ""]]);
  });

  test("a retry replaces the turn it repeats", async () => {
    const chaos = page();
    const usage = { input_tokens: 0, output_tokens: 0 };
    server.onTurn = (s, turn) => server.emit(s, "turn.failed", { turn, data: { error: { code: "model_error", message: "overloaded", hint: "try again" }, usage } });
    await chaos.send("why?");
    await settle();
    expect(shown(chaos)).toEqual([["why?", "failed", ""]]);
    server.onTurn = (s, t) => server.answer(s, t, ["because"]);
    await chaos.retry(opened(chaos).exchanges[0]?.id ?? "");
    await settle();
    expect(shown(chaos)).toEqual([["why?", "completed", "because"]]);
    expect(opened(chaos).exchanges[0]?.attempt).toBe(2);
  });

  test("a new name is kept by the server; a refused one is taken back", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const chaos = page();
    const id = opened(chaos).id;
    await chaos.send("name?");
    await settle();
    await chaos.rename(id, "Login");
    await settle();
    expect([...server.sessions.values()][0]?.title).toBe("Login");
    expect(chaos.store.getState().known[id]?.title).toBe("Login");
    server.down = true;
    await chaos.rename(id, "Other");
    expect(chaos.store.getState().known[id]?.title).toBe("Login");
    expect(chaos.store.getState().problem?.code).toBe("unreachable");
  });

  test("delete removes both, and nothing when the server cannot be reached", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const chaos = page();
    const id = opened(chaos).id;
    await chaos.send("gone?");
    await settle();
    server.down = true;
    await chaos.remove(id);
    expect(stored()).toHaveLength(1);
    server.down = false;
    await chaos.remove(id);
    expect(stored()).toEqual([]);
    expect(server.sessions.size).toBe(0);
    expect(opened(chaos)).toMatchObject({ phase: "new", exchanges: [] });
  });

  test("an answer goes on in the background and is in the list at its end", async () => {
    const chaos = page();
    const id = opened(chaos).id;
    let where: [string, string] = ["", ""];
    server.onTurn = (...turn) => (where = [turn[0], turn[1]]);
    await chaos.send("slow?");
    await settle();
    chaos.newChat();
    expect([...chaos.store.getState().running]).toEqual([id]);
    server.answer(...where, ["done"]);
    await settle();
    expect(chaos.store.getState().running.size).toBe(0);
    expect(stored()[0]?.messages[1]?.content).toBe("done");
    expect([...server.sessions.values()][0]?.streams.size, "and the connection is let go").toBe(0);
  });

  test("a hidden tab keeps no connection, also in the middle of an answer, and reads on when it is seen", async () => {
    const chaos = page();
    let where: [string, string] = ["", ""];
    server.onTurn = (...turn) => (where = [turn[0], turn[1]]);
    await chaos.send("slow?");
    await settle();
    const streams = () => [...server.sessions.values()][0]?.streams.size;
    expect(streams()).toBe(1);
    chaos.visible(false);
    expect(streams()).toBe(0);
    server.answer(...where, ["done"]);
    await settle();
    expect(shown(chaos)[0]?.[1]).toBe("running");
    chaos.visible(true);
    await settle();
    expect(shown(chaos)).toEqual([["slow?", "completed", "done"]]);
  });

  test("a session that is opened in a hidden tab keeps no connection", async () => {
    server.create("kept");
    const chaos = page();
    chaos.visible(false);
    await chaos.open("kept");
    await settle();
    expect([...server.sessions.values()][0]?.streams.size).toBe(0);
    chaos.visible(true);
    await settle();
    expect(opened(chaos).phase).toBe("live");
  });

  test("two tabs do not overwrite each other's sessions", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const one = page();
    const other = new Chaos({ client: createClient("http://parley.test/", server.fetch), storage, uuid: () => `other-${++ids}`, schedule: (f) => queueMicrotask(f) });
    pages.push(other);
    await one.send("one");
    await settle();
    await other.send("two");
    await settle();
    expect(stored().map((s) => s.preview).sort()).toEqual(["one", "two"]);
  });

  test("a session that another client deletes stays readable", async () => {
    server.onTurn = (s, t) => server.answer(s, t, ["yes"]);
    const chaos = page();
    await chaos.send("here?");
    await settle();
    server.sessions.clear();
    for (const p of pages) p.reconnect();
    chaos.visible(false);
    chaos.visible(true);
    await settle();
    expect(opened(chaos).phase).toBe("local");
    expect(shown(chaos)).toEqual([["here?", "completed", "yes"]]);
  });
});

test("a preview that was cut says so", () => {
  expect(shown(previewOf("What is the  latest?"))).toBe("What is the latest?");
  expect(shown(previewOf("I'm starting on the login system. What's the final spec?"))).toBe("I'm starting on the login system. What's…");
});
