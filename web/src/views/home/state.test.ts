import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient, type ApiError } from "../../api/client.ts";
import { FakeParley } from "../../testing/fake.ts";
import { Home } from "./state.ts";

let server: FakeParley;
let home: Home;
let ids = 0;

beforeEach(() => {
  vi.useFakeTimers();
  server = new FakeParley();
  ids = 0;
  home = page();
});
afterEach(() => {
  home.close();
  vi.useRealTimers();
});

function page(): Home {
  return new Home({ client: createClient("http://parley.test/", server.fetch), uuid: () => `uuid-${++ids}`, schedule: (f) => queueMicrotask(f) });
}
const settle = () => vi.advanceTimersByTimeAsync(0);
const opened = () => home.store.getState().opened;
const entries = () => home.store.getState().entries?.map((e) => [e.id, e.name]);
const asked = () => opened().exchanges.flatMap((x) => x.asked.map((a) => a.answer?.choice ?? "waits"));

test("the list is the server's, with sessions from every client", async () => {
  const other = server.create("");
  server.emit(other.id, "session.updated", { data: { title: "From a terminal" } });
  await home.refresh();
  expect(entries()).toEqual([[other.id, "From a terminal"]]);
  await home.open(other.id);
  await settle();
  expect(opened()).toMatchObject({ id: other.id, phase: "live" });
});

test("a conversation in which nothing was said leaves nothing behind, whatever was looked at or chosen", async () => {
  await home.refresh();
  home.newChat();
  expect((await home.commands()).map((c) => c.name)).toEqual(["usual"]);
  expect((await home.resources()).resources.map((r) => r.uri)).toEqual(["file:///usual"]);
  await home.setModel("test/other");
  await home.setMode("plan");
  await home.approvals();
  home.newChat();
  await home.refresh();
  expect([server.sessions.size, entries()]).toEqual([0, []]);
  await home.send("hello");
  await settle();
  expect([server.sessions.size, (await home.commands()).map((c) => c.name)]).toEqual([1, ["own"]]);
});

test("an app that could not be read says why, until it can be", async () => {
  const unread = () => home.store.getState().unread?.message;
  server.down = true;
  await home.refresh();
  expect(unread()).toBe("The server cannot be reached.");
  server.down = false;
  home.reconnect();
  await settle();
  expect([unread(), home.store.getState().app !== undefined]).toEqual([undefined, true]);
});

test("the list is read page by page, and pages scrolled to stay when it is read again", async () => {
  server.page = 2;
  const all = Array.from({ length: 5 }, () => server.create("").id);
  const ids = () => home.store.getState().entries?.map((e) => e.id);
  const more = () => home.store.getState().moreSessions;
  await home.refresh();
  expect([ids(), more()]).toEqual([all.slice(0, 2), "more"]);
  await home.furtherSessions();
  expect([ids(), more()]).toEqual([all.slice(0, 4), "more"]);
  server.down = true;
  await home.furtherSessions();
  expect([ids(), more()]).toEqual([all.slice(0, 4), "failed"]);
  server.down = false;
  await home.refreshList();
  expect([ids(), more()]).toEqual([all.slice(0, 4), "more"]);
  await home.furtherSessions();
  expect([ids(), more()]).toEqual([all, "none"]);
  await home.furtherSessions();
  await home.refreshList();
  expect([ids(), more()]).toEqual([all, "none"]);
});

test("a session beyond the pages read so far is found, too", async () => {
  server.page = 2;
  const all = Array.from({ length: 5 }, () => server.create("").id);
  await home.open(all[4] ?? "");
  await settle();
  expect(opened()).toMatchObject({ id: all[4], phase: "live" });
});

test("a session that is begun here is in the list at once, and under one name", async () => {
  await home.refresh();
  server.onTurn = (session, turn) => server.answer(session, turn, ["Fine."]);
  await home.send("How is the house?");
  await settle();
  expect(entries()?.map(([id]) => id)).toEqual(["uuid-1"]);
  expect(opened().exchanges.map((x) => x.answer)).toEqual(["Fine."]);
});

test("a mode that is chosen before the first message is the session's from its beginning", async () => {
  await home.setMode("plan");
  expect(opened().records.mode).toBe("plan");
  await home.send("Hello");
  await settle();
  const [s] = [...server.sessions.values()];
  expect(s?.events[0]).toMatchObject({ type: "session.created", data: { mode: "plan" } });
  expect(opened().records.mode).toBe("plan");
  await home.setMode("default");
  await settle();
  expect(opened().records.mode).toBe("default");
});

test("a mode that is refused is not shown", async () => {
  await home.send("Hello");
  await settle();
  server.intercept = (method) => (method === "PATCH" ? new Response('{"error":{"code":"forbidden","message":"not here"}}', { status: 403 }) : undefined);
  await home.setMode("bypassPermissions");
  await settle();
  expect(opened().records.mode).toBe("default");
  expect(home.store.getState().problem?.message).toBe("not here");
});

test("pins make the session that they are pinned to", async () => {
  expect(await home.setPins([{ label: "a", text: "b" }])).toBe(true);
  await settle();
  expect(opened().records.pins).toEqual([{ label: "a", text: "b" }]);
  expect(opened()).toMatchObject({ id: "uuid-1", phase: "live", exchanges: [] });
});

test("a question is in its turn and in the inbox until the log has its answer", async () => {
  let interaction = "";
  server.onTurn = (session, turn) => (interaction = server.ask(session, turn));
  await home.send("Switch it off");
  await settle();
  expect(asked()).toEqual(["waits"]);
  expect(home.inbox.store.getState().rows?.map((r) => r.id)).toEqual([interaction]);
  await home.answer(interaction, { choice: "allow" });
  await settle();
  expect(asked()).toEqual(["allow"]);
  expect(home.inbox.store.getState().rows).toEqual([]);
});

test("a second answer is an error of its own, and the first stays", async () => {
  let interaction = "";
  server.onTurn = (session, turn) => (interaction = server.ask(session, turn));
  await home.send("Switch it off");
  await settle();
  const { session, turn } = [...server.sessions.values()][0]!.events.find((e) => e.type === "interaction.opened")!;
  server.emit(session, "interaction.answered", { turn: turn!, data: { id: interaction, answer: { choice: "deny" }, by: "ana" } });
  await expect(home.answer(interaction, { choice: "allow" })).rejects.toMatchObject({ code: "conflict", status: 409 } satisfies Partial<ApiError>);
  await settle();
  expect(asked()).toEqual(["deny"]);
  expect(home.store.getState().problem).toBeUndefined();
});

test("a session that was deleted is gone from the list", async () => {
  await home.send("Hello");
  await settle();
  await home.remove("uuid-1");
  expect(entries()).toEqual([]);
  expect(server.sessions.size).toBe(0);
});

test("a session whose queue is held does not answer, whether it is open or only listed", async () => {
  server.onTurn = () => undefined;
  await home.send("First");
  await settle();
  const [s] = server.sessions.values();
  const turn = s!.events.find((e) => e.type === "turn.started")!.turn!;
  const running = () => [...home.store.getState().running];
  expect(running()).toEqual(["uuid-1"]);
  server.emit(s!.id, "turn.queued", { turn: "T-next", data: { message: { role: "user", parts: [{ type: "text", text: "Then" }] } } as never });
  server.emit(s!.id, "turn.cancelled", { turn, data: { by: "local", usage: { input_tokens: 0, output_tokens: 0 } } });
  await settle();
  expect(opened().exchanges.map((x) => x.standing)).toEqual(["cancelled", "pending"]);
  expect(running()).toEqual([]);

  const other = page();
  server.intercept = (method, path) => {
    if (method !== "GET" || path !== "v1/sessions") return undefined;
    const row = (id: string, held: boolean) => ({ id, app: "home", title: id, created_at: "", updated_at: "", waiting: 0, turn: { id: "t", status: "pending" }, held });
    return Response.json({ sessions: [row("held", true), row("next", false)] });
  };
  await other.refreshList();
  expect([...other.store.getState().running]).toEqual(["next"]);
  other.close();
});

test("the address of a session that does not exist says so, and a new chat begins elsewhere", async () => {
  await home.open("no-such-session");
  await settle();
  expect(opened()).toMatchObject({ id: "no-such-session", phase: "lost", exchanges: [] });
  home.newChat();
  expect(opened()).toMatchObject({ id: "uuid-2", phase: "new" });
});
