import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { Fetch } from "../api/client.ts";
import { FakeCodex, shelfOf, type FakeSocket } from "../testing/codex.ts";
import { Chat, type Happening, type Settings } from "./chat.ts";
import { addressesOf } from "./settings.ts";
import { Tokens } from "./token.ts";

let server: FakeCodex;
let kept: Map<string, string>;
let chats: Chat[];
let told: Happening[];
let tokens: Tokens;

function open(settings: Partial<Settings> = {}): Chat {
  const chat = new Chat(
    { open: server.open, fetch: server.fetch, shelf: shelfOf(kept), now: () => Date.now(), random: () => 0, schedule: (f) => queueMicrotask(f) },
    {
      addresses: () => addressesOf({}, "http://parley.test/sidecar.js", "http://crm.test/"),
      org: () => "o1",
      apiBaseUrl: () => "",
      who: () => "ana",
      context: () => "",
      ready: () => tokens.known(),
      ...settings,
    },
    tokens,
  );
  chat.happened = (h) => told.push(h);
  chats.push(chat);
  return chat;
}

const card = (id: string, more: object = {}) => JSON.stringify({ type: "confirm", id, title: "Create it", summary: "One lead.", method: "POST", path: "/api/leads", body: { n: 1 }, ...more });

/** A turn on the wire. */
const turn = (text: string, session = "S1") => [
  { type: "session.id", sessionId: session },
  { type: "turn.started" },
  { type: "agent.text", text, status: "done" },
  { type: "turn.completed", text, usage: { input_tokens: 1, output_tokens: 1 } },
];

const shown = (chat: Chat) => chat.state.messages.map((m) => (m.from === "user" ? `> ${m.text}` : `${m.state}: ${m.card ? `[${m.card.state}]` : m.text}${m.error ? ` (${m.error})` : ""}`));

/** Nobody waits for the next attempt here. */
const until = (f: () => unknown, want: unknown) =>
  expect
    .poll(
      () => {
        for (const c of chats) c.hurry();
        return f();
      },
      { interval: 1 },
    )
    .toEqual(want);

beforeEach(() => {
  server = new FakeCodex();
  kept = new Map();
  chats = [];
  told = [];
  tokens = new Tokens();
  tokens.set("token-one");
});

afterEach(() => {
  for (const c of chats) c.close();
  vi.useRealTimers();
});

describe("the wire", () => {
  test("an answer comes with its actions, and the session goes on", async () => {
    server.answer = (s) => {
      s.says(
        { type: "session.id", sessionId: "S1" },
        { type: "turn.started" },
        { type: "agent.action", action: "tool_call", tool: "GET /api/leads", status: "started" },
        { type: "agent.action", action: "tool_call", tool: "GET /api/leads", status: "completed" },
        { type: "agent.action", action: "command", command: "Skill leads", status: "started" },
        { type: "agent.action", action: "command", command: "Skill leads", status: "failed" },
        { type: "agent.text", text: "Four", status: "streaming" },
        { type: "something.new", text: "?" },
        { type: "turn.completed", text: "Forty-two.", usage: { input_tokens: 1, output_tokens: 1 } },
      );
    };
    const chat = open();
    chat.send("  How many? ");
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
    expect(chat.state.messages[1]?.actions).toEqual([
      { label: "GET /api/leads", state: "completed" },
      { label: "Skill leads", command: true, state: "failed" },
    ]);
    expect(told.map((h) => h.type)).toEqual(["message", "action", "action", "action", "action", "answer"]);
    chat.send("And now?");
    await until(() => server.heard.length, 2);
    expect(server.heard).toEqual([
      { type: "chat", message: "How many?", token: "token-one", live: true, orgId: "o1" },
      { type: "chat", message: "And now?", token: "token-one", live: true, orgId: "o1", sessionId: "S1" },
    ]);
    expect(server.sockets.length).toBe(1);
  });

  test("no connection is opened before there is something to say", async () => {
    open();
    await Promise.resolve();
    expect(server.sockets.length).toBe(0);
  });

  test("an error ends the answer, and the message can be sent again", async () => {
    server.answer = (s) => s.says({ type: "error", message: "The model is away." });
    const chat = open();
    chat.send("Hello");
    await until(() => shown(chat), ["> Hello", "failed:  (The model is away.)"]);
    server.answer = (s) => s.says(...turn("Hi."));
    chat.again();
    await until(() => shown(chat), ["> Hello", "done: Hi."]);
  });

  test("while an answer is under way nothing else is sent", async () => {
    const chat = open();
    chat.send("One");
    expect(() => chat.send("Two")).toThrow("under way");
  });

  test("a server that is away is tried again until it is back", async () => {
    server.down = true;
    const chat = open();
    chat.send("Hello");
    await expect.poll(() => chat.state.phase).toBe("reconnecting");
    server.down = false;
    server.answer = (s) => s.says(...turn("Hi."));
    chat.hurry();
    await until(() => shown(chat), ["> Hello", "done: Hi."]);
    expect(server.heard.length).toBe(1);
  });

  test("the page's context goes along, and is not shown as the user's words", async () => {
    server.answer = (s) => s.says(...turn("Hi."));
    const chat = open({ context: () => "What the page shows: {}" });
    chat.send("Hello");
    await until(() => shown(chat), ["> Hello", "done: Hi."]);
    expect(server.heard[0]?.["message"]).toBe("Hello\n\nWhat the page shows: {}");
    expect([...server.stored.values()][0]?.title).toBe("Hello");
  });
});

describe("tokens", () => {
  test("a refused token is replaced by the page's next one, and the message is sent again", async () => {
    tokens.from((why) => (why === "refused" ? "token-two" : null));
    server.refused.add("token-one");
    server.answer = (s, f) => s.says(...(f["token"] === "token-one" ? [{ type: "error", message: "Log in again." }] : turn("Hi.")));
    const chat = open();
    chat.send("Hello");
    await until(() => shown(chat), ["> Hello", "done: Hi."]);
    expect(server.heard.map((f) => f["token"])).toContain("token-two");
  });

  test("an error that is not about the token is shown, when the page has no other token", async () => {
    const ask = vi.fn(() => "token-one");
    tokens.from(ask);
    server.answer = (s) => s.says({ type: "error", message: "No such organisation." });
    const chat = open();
    chat.send("Hello");
    await until(() => shown(chat), ["> Hello", "failed:  (No such organisation.)"]);
    expect(ask.mock.calls).toEqual([["refused"]]);
    expect(server.heard.length).toBe(1);
  });

  test("without a token the user is told", async () => {
    tokens.set(null);
    const chat = open();
    chat.send("Hello");
    await until(() => shown(chat), ["> Hello", "failed:  (You are not signed in.)"]);
    expect(server.heard).toEqual([]);
  });
});

describe("confirmations", () => {
  const asks = (s: FakeSocket, f: Record<string, unknown>) => {
    const message = String(f["message"]);
    if (!message.startsWith("CONFIRM_ACTION")) return s.says(...turn(message.startsWith("Create") ? card("i1") : "Very well."));
    s.says(
      { type: "session.id", sessionId: "S1" },
      { type: "turn.started" },
      { type: "agent.action", action: "tool_call", tool: "POST /api/leads", status: "started" },
      { type: "agent.action", action: "tool_call", tool: "POST /api/leads", status: "completed" },
      { type: "turn.completed", text: "It is there.", usage: {} },
    );
  };

  test("a card is confirmed by its id, and done when its request was", async () => {
    server.answer = asks;
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat), ["> Create a lead", "done: [open]"]);
    chat.confirm("i1");
    expect(shown(chat)[1]).toBe("done: [sent]");
    chat.confirm("i1");
    await until(() => shown(chat), ["> Create a lead", "done: [done]", "done: It is there."]);
    expect(server.heard.map((f) => f["message"])).toEqual(["Create a lead", "CONFIRM_ACTION: i1"]);
    expect(told.filter((h) => h.type === "write" || h.type === "confirm").map((h) => [h.type, (h as { card: { state: string } }).card.state])).toEqual([
      ["confirm", "open"],
      ["write", "done"],
    ]);
  });

  test("cancelling declines it, and so does another message", async () => {
    server.answer = asks;
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    chat.cancel("i1");
    await until(() => shown(chat), ["> Create a lead", "done: [cancelled]", "done: Very well."]);
    chat.send("Create another");
    await until(() => shown(chat)[4], "done: [open]");
    chat.send("Rather not");
    await until(() => shown(chat).slice(4), ["done: [cancelled]", "> Rather not", "done: Very well."]);
    expect(server.heard.filter((f) => String(f["message"]).startsWith("CONFIRM"))).toEqual([]);
  });

  test("what the server refuses was not sent, and says why", async () => {
    server.answer = (s, f) => (String(f["message"]).startsWith("CONFIRM") ? s.says({ type: "error", message: "It was not confirmed in time. Nothing was sent." }) : asks(s, f));
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    chat.confirm("i1");
    await until(() => chat.state.messages[1]?.card, expect.objectContaining({ state: "refused", note: "It was not confirmed in time. Nothing was sent." }));
  });

  test("an API that refuses it, and an outcome that nobody knows", async () => {
    const ends = (frames: object[]) => {
      server.answer = (s, f) => (String(f["message"]).startsWith("CONFIRM") ? s.says({ type: "session.id", sessionId: "S1" }, { type: "turn.started" }, ...(frames as Record<string, unknown>[])) : asks(s, f));
    };
    const chat = open();
    ends([
      { type: "agent.action", action: "tool_call", tool: "POST /api/leads", status: "started" },
      { type: "agent.action", action: "tool_call", tool: "POST /api/leads", status: "failed" },
      { type: "turn.completed", text: "It has that already.", usage: {} },
    ]);
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    chat.confirm("i1");
    await until(() => shown(chat)[1], "done: [failed]");
    ends([{ type: "turn.completed", text: "I do not know.", usage: {} }]);
    chat.send("Create a lead");
    await until(() => shown(chat)[4], "done: [open]");
    chat.confirm("i1");
    await until(() => shown(chat)[4], "done: [unknown]");
  });
});

describe("a connection that is lost", () => {
  /** A session of the log, as the wire has made it. */
  const logged = (message: string) => {
    const { id } = server.parley.create("outside");
    return { session: id, turn: server.parley.begin(id, message) };
  };

  test("in the middle of an answer, the log has the rest", async () => {
    const { session, turn: t } = logged("How many?");
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" }, { type: "agent.text", text: "Forty", status: "streaming" });
    const chat = open();
    chat.send("How many?");
    await until(() => shown(chat), ["> How many?", "working: Forty"]);
    server.socket.cut();
    await until(() => server.parley.requests.some((r) => r.includes("/events")), true);
    server.parley.answer(session, t, ["Forty-", "two."]);
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
    expect(server.heard.length).toBe(1);
  });

  test("before the server has the message, it is sent again", async () => {
    const { session, turn: t } = logged("Before");
    server.parley.answer(session, t, ["Yes."]);
    server.answer = (s) => s.says(...turn("Yes.", session));
    const chat = open();
    chat.send("Before");
    await until(() => shown(chat)[1], "done: Yes.");
    let cuts = 0;
    server.answer = (s) => (cuts++ === 0 ? s.cut() : s.says(...turn("Here it is.", session)));
    chat.send("After");
    await until(() => shown(chat)[3], "done: Here it is.");
    expect(server.heard.map((f) => f["message"])).toEqual(["Before", "After", "After"]);
  });

  test("a turn that was interrupted is resumed, once", async () => {
    const { session, turn: t } = logged("How many?");
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" });
    const chat = open();
    chat.send("How many?");
    await until(() => shown(chat)[1], "working: ");
    server.parley.emit(session, "turn.interrupted", { turn: t, data: { reason: "crash" } as never });
    server.socket.cut();
    await until(() => server.parley.requests.filter((r) => r.endsWith("/resume")).length, 1);
    server.parley.answer(session, t, ["Forty-two."]);
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
    expect(server.parley.requests.filter((r) => r.endsWith("/resume")).length).toBe(1);
  });

  test("a turn that has lost the token is given it again", async () => {
    const { session, turn: t } = logged("How many?");
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" }, { type: "error", message: "Your login is needed to go on." });
    server.parley.emit(session, "interaction.opened", {
      turn: t,
      data: { id: "login1", session, turn: t, kind: "credential", title: "The login has expired", credentials: ["API_TOKEN"], choices: ["answered", "deny"], opened_at: new Date().toISOString() },
    });
    const bodies: unknown[] = [];
    const fetch = server.parley.fetch;
    Object.assign(server.parley, {
      fetch: ((input, init) => {
        if (input.endsWith("/answer")) bodies.push(JSON.parse(String(init?.body)));
        return fetch(input, init);
      }) satisfies Fetch,
    });
    const chat = open();
    chat.send("How many?");
    await until(() => bodies, [{ choice: "answered", credentials: { API_TOKEN: "token-one" } }]);
    server.parley.answer(session, t, ["Forty-two."]);
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
  });

  test("a confirmation that arrived is not sent again, and one that did not is", async () => {
    const { session, turn: t } = logged("Create a lead");
    const ask = { id: "i1", session, turn: t, kind: "confirmation" as const, call: "c1", tool: "api_request", input: { method: "POST", path: "/api/leads", body: { n: 1 } }, title: "Create it", choices: ["allow", "deny"], opened_at: new Date().toISOString() };
    server.parley.emit(session, "interaction.opened", { turn: t, data: ask });
    server.answer = (s, f) => (String(f["message"]).startsWith("CONFIRM") ? s.cut() : s.says(...turn(card("i1"), session)));
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    chat.confirm("i1");
    // It had not arrived: the log still waits.
    await until(() => server.heard.length >= 3, true);
    // Now it has, and its answer is lost.
    server.parley.emit(session, "interaction.answered", { turn: t, data: { id: "i1", answer: { choice: "allow" }, by: "ana", client: "codex" } });
    const sent = server.heard.length;
    await until(() => server.parley.requests.filter((r) => r.includes("/events?after")).length > 1, true);
    server.parley.answer(session, t, ["It is there."]);
    await until(() => shown(chat).at(-1), "done: It is there.");
    expect(server.heard.length - sent).toBeLessThanOrEqual(1);
    expect(new Set(server.heard.slice(1).map((f) => f["message"]))).toEqual(new Set(["CONFIRM_ACTION: i1"]));
  });

  test("cancelling says no to the one confirmation, and the log has what the agent says to that", async () => {
    const { session, turn: t } = logged("Create a lead");
    const ask = { id: "i1", session, turn: t, kind: "confirmation" as const, call: "c1", tool: "api_request", input: { method: "POST", path: "/api/leads", body: { n: 1 } }, title: "Create it", choices: ["allow", "deny"], opened_at: new Date().toISOString() };
    server.parley.emit(session, "interaction.opened", { turn: t, data: ask });
    server.answer = (s) => s.says(...turn(card("i1"), session));
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    chat.cancel("i1");
    await until(() => server.parley.requests.filter((r) => r.includes("/events?after")).length, 1);
    expect(chat.state.phase).toBe("working");
    server.parley.answer(session, t, ["All right."]);
    await until(() => shown(chat), ["> Create a lead", "done: [cancelled]", "done: All right."]);
    expect(server.heard.length).toBe(1);
  });

  /** A card that is open, of a turn in the log. */
  const carded = async (expires?: string) => {
    const { session, turn: t } = logged("Create a lead");
    const ask = { id: "i1", session, turn: t, kind: "confirmation" as const, call: "c1", tool: "api_request", input: { method: "POST", path: "/api/leads", body: { n: 1 } }, title: "Create it", choices: ["allow", "deny"], opened_at: new Date().toISOString(), ...(expires && { expires_at: expires }) };
    server.parley.emit(session, "tool.requested", { turn: t, data: { call: "c1", name: "api_request", input: ask.input } });
    server.parley.emit(session, "interaction.opened", { turn: t, data: ask });
    server.answer = (s) => s.says(...turn(card("i1"), session));
    const chat = open();
    chat.send("Create a lead");
    await until(() => shown(chat)[1], "done: [open]");
    return { session, t, chat };
  };

  /** The write was sent, its answer is lost, and what became of it is asked. */
  const doubted = async () => {
    const { session, t, chat } = await carded();
    const action = { type: "agent.action", action: "tool_call", tool: "POST /api/leads" };
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" }, { ...action, status: "started" }, { ...action, status: "failed" }, { type: "turn.completed", text: "It is not known.", usage: {} });
    server.parley.emit(session, "interaction.answered", { turn: t, data: { id: "i1", answer: { choice: "allow" }, by: "ana", client: "codex" } });
    server.parley.emit(session, "tool.started", { turn: t, data: { call: "c1", name: "api_request", input: {}, effect: "write", deadline: new Date().toISOString(), attempt: 1 } });
    server.parley.emit(session, "tool.ended", { turn: t, data: { call: "c1", name: "api_request", outcome: "unknown", output: "" } });
    server.parley.emit(session, "interaction.opened", {
      turn: t,
      data: { id: "u1", session, turn: t, kind: "unknown", call: "c1", tool: "api_request", input: { method: "POST", path: "/api/leads" }, title: "Did it?", choices: ["happened", "did_not", "again", "leave"], opened_at: new Date().toISOString() },
    });
    chat.confirm("i1");
    await until(() => chat.state.messages[1]?.card, expect.objectContaining({ state: "unknown", asks: "u1" }));
    return { session, t, chat };
  };
  const answers = (session: string) => server.parley.sessions.get(session)?.events.flatMap((e) => (e.type === "interaction.answered" ? [`${e.data.id} ${e.data.answer.choice}`] : []));

  test.each([
    ["happened", "You have said that it was done."],
    ["did_not", "You have said that it was not done."],
  ] as const)("an outcome that nobody knows is settled by the person: %s", async (outcome, note) => {
    const { session, t, chat } = await doubted();
    chat.settle("i1", outcome);
    chat.settle("i1", outcome);
    await until(() => answers(session), ["i1 allow", `u1 ${outcome}`]);
    server.parley.answer(session, t, ["As you say."]);
    await until(() => shown(chat).slice(1), ["done: [unknown]", "done: It is not known.", "done: As you say."]);
    expect(chat.state.messages[1]?.card).toMatchObject({ state: "unknown", note });
    expect(chat.state.messages[1]?.card?.asks).toBeUndefined();
    expect(server.heard.map((f) => f["message"])).toEqual(["Create a lead", "CONFIRM_ACTION: i1"]);
    expect(told.filter((h) => h.type === "write").length).toBe(1);
  });

  test("an outcome that was settled elsewhere is not settled again, and the answer to that is shown", async () => {
    const { session, t, chat } = await doubted();
    server.parley.emit(session, "interaction.answered", { turn: t, data: { id: "u1", answer: { choice: "leave" }, by: "ana", client: "api" } });
    server.parley.answer(session, t, ["It stays open."]);
    chat.settle("i1", "happened");
    await until(() => shown(chat).at(-1), "done: It stays open.");
    expect(answers(session)).toEqual(["i1 allow", "u1 leave"]);
    expect(server.heard.length).toBe(2);
  });

  test("another message leaves the question, and a reload keeps it", async () => {
    const { session, chat } = await doubted();
    chat.close();
    const again = open();
    await again.restore();
    expect(again.state.messages[1]?.card).toMatchObject({ state: "unknown", asks: "u1" });
    server.answer = (s) => s.says(...turn("I have looked.", session));
    again.send("Look at the data");
    expect(again.state.messages[1]?.card?.asks).toBeUndefined();
    await until(() => shown(again).at(-1), "done: I have looked.");
    again.settle("i1", "happened");
    expect(again.busy).toBe(false);
  });

  test("a card that nobody confirms in time expires, and is not sent any more", async () => {
    const { chat } = await carded(new Date(Date.now() + 50).toISOString());
    await until(() => shown(chat)[1], "done: [expired]");
    chat.confirm("i1");
    expect(chat.busy).toBe(false);
    expect(server.heard.length).toBe(1);
  });

  test("a card that was confirmed in another tab says so, and is not sent again", async () => {
    const { session, t, chat } = await carded(new Date(Date.now() + 3_600_000).toISOString());
    await until(() => chat.state.messages[1]?.card?.expires !== undefined, true);
    chat.close();
    server.parley.emit(session, "interaction.answered", { turn: t, data: { id: "i1", answer: { choice: "allow" }, by: "ana", client: "codex" } });
    server.parley.emit(session, "tool.started", { turn: t, data: { call: "c1", name: "api_request", input: {}, effect: "write", deadline: new Date().toISOString(), attempt: 1 } });
    server.parley.emit(session, "tool.ended", { turn: t, data: { call: "c1", name: "api_request", outcome: "ok", output: "" } });
    server.parley.answer(session, t, ["It is there."]);
    const again = open();
    await again.restore();
    await until(() => shown(again)[1], "done: [done]");
    again.confirm("i1");
    expect(server.heard.length).toBe(1);
  });

  test("a card that has expired while the page was away says so", async () => {
    const { session, t, chat } = await carded(new Date(Date.now() + 3_600_000).toISOString());
    await until(() => chat.state.messages[1]?.card?.expires !== undefined, true);
    chat.close();
    server.parley.emit(session, "interaction.expired", { turn: t, data: { id: "i1" } as never });
    server.parley.answer(session, t, ["It was not confirmed."]);
    const again = open();
    await again.restore();
    await until(() => shown(again)[1], "done: [expired]");
    again.confirm("i1");
    expect(server.heard.length).toBe(1);
  });

  test("a token that has ended meanwhile is replaced, also where the log only says that there is nothing", async () => {
    const { session, turn: t } = logged("How many?");
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" });
    const chat = open();
    chat.send("How many?");
    await until(() => shown(chat)[1], "working: ");
    tokens.from((why) => (why === "refused" ? "token-two" : null));
    server.refused.add("token-one");
    const { fetch } = server.parley;
    Object.assign(server.parley, {
      fetch: ((input, init) => {
        const own = new Headers(init?.headers).get("Authorization") === "Bearer token-two";
        return own ? fetch(input, init) : Promise.resolve(Response.json({ error: { code: "not_found", message: "there is no such session" } }, { status: 404 }));
      }) satisfies Fetch,
    });
    server.socket.cut();
    server.parley.answer(session, t, ["Forty-two."]);
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
    expect(server.heard.length).toBe(1);
  });

  test("where there is no log to look into, the answer is marked as cut", async () => {
    server.parley.intercept = () => new Response("<h1>Not here</h1>", { status: 404 });
    server.answer = (s) => s.says({ type: "session.id", sessionId: "S1" }, { type: "turn.started" });
    const chat = open();
    chat.send("How many?");
    await until(() => shown(chat)[1], "working: ");
    server.socket.cut();
    await until(() => shown(chat)[1], "cut:  (The connection was lost before the answer was complete.)");
    server.answer = (s) => s.says(...turn("Forty-two."));
    chat.again();
    await until(() => shown(chat), ["> How many?", "done: Forty-two."]);
  });
});

describe("what is kept", () => {
  test("a reload in the middle of an answer goes on with it", async () => {
    const { id: session } = server.parley.create("outside");
    const t = server.parley.begin(session, "How many?");
    server.answer = (s) => s.says({ type: "session.id", sessionId: session }, { type: "turn.started" });
    const before = open();
    before.send("How many?");
    await until(() => before.state.phase, "working");
    before.close();
    const after = open();
    await after.restore();
    server.parley.answer(session, t, ["Forty-two."]);
    await until(() => shown(after), ["> How many?", "done: Forty-two."]);
    expect(server.heard.length).toBe(1);
    expect(kept.get("parley.sidecar 1")).not.toContain("token-one");
  });

  test("what another user or organisation left in the tab is not shown", async () => {
    server.answer = (s) => s.says(...turn("Secret."));
    const before = open();
    before.send("Hello");
    await until(() => shown(before)[1], "done: Secret.");
    before.close();
    for (const settings of [{ who: () => "bob" }, { org: () => "o2" }]) {
      const other = open(settings);
      await other.restore();
      expect(other.state.messages).toEqual([]);
      other.close();
    }
    const bob = open({ who: () => "bob" });
    bob.send("Hi");
    await until(() => shown(bob)[1], "done: Secret.");
    expect(kept.get("parley.sidecar 1")).not.toContain("Hello");
  });

  test("a page that says late who is there, and for which organisation, finds the conversation again", async () => {
    server.answer = (s) => s.says(...turn("Forty-two."));
    const before = open();
    before.send("Hello");
    await until(() => shown(before)[1], "done: Forty-two.");
    before.close();
    let [who, org] = ["", ""];
    const after = open({ who: () => who, org: () => org });
    await after.restore();
    after.persist();
    who = "ana";
    await after.restore();
    after.fresh(); // as when the organisation is set
    expect(shown(after)).toEqual([]);
    org = "o1";
    await after.restore();
    expect(shown(after)).toEqual(["> Hello", "done: Forty-two."]);
  });

  test("conversations are stored, opened again and go on in their session", async () => {
    server.answer = (s, f) => s.says(...turn(`To ${String(f["message"])}`));
    const chat = open();
    chat.send("One");
    await until(() => [...server.stored.values()].map((c) => [c.title, c.messages.length]), [["One", 2]]);
    await until(() => chat.state.conversation, "c1");
    chat.fresh();
    expect(chat.state.messages).toEqual([]);
    await chat.show("c1");
    expect(shown(chat)).toEqual(["> One", "done: To One"]);
    chat.send("Two");
    await until(() => shown(chat).length, 4);
    expect(server.heard.at(-1)).toMatchObject({ message: "Two", sessionId: "S1" });
    await until(() => (server.stored.get("c1")?.messages.at(-1) as { text?: string })?.text, "To Two");
    expect(server.requests.every((r) => r.endsWith("for o1"))).toBe(true);
    await chat.rename("c1", "First");
    expect(server.stored.get("c1")?.title).toBe("First");
    await chat.remove("c1");
    expect(server.stored.size).toBe(0);
    expect(shown(chat)).toEqual([]);
    expect(server.heard.at(-1)).toEqual({ type: "reset", sessionId: "S1" });
  });

  test("leaving forgets all of it", async () => {
    server.answer = (s) => s.says(...turn("Hi."));
    const chat = open();
    chat.panel.draft = "half a sen";
    chat.send("Hello");
    await until(() => shown(chat)[1], "done: Hi.");
    chat.forget();
    expect([chat.state.messages, chat.panel.draft, kept.size]).toEqual([[], "", 0]);
  });
});
