import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { createClient, type InteractionRow } from "../api/client.ts";
import { awaitedIn, Inbox } from "./inbox.ts";

const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
const row = (id: string, session = "S") => ({ id, session, turn: "T", kind: "permission", title: id, opened_at: "", open: true });

let rows: unknown[];
let asked: string[];
let down: boolean;
let inbox: Inbox;

beforeEach(() => {
  vi.useFakeTimers();
  [rows, asked, down] = [[], [], false];
  inbox = new Inbox(
    createClient("http://h/", async (input) => {
      asked.push(input.replace("http://h/v1/", ""));
      if (down) throw new TypeError("fetch failed");
      return input.includes("interactions") ? json({ interactions: rows }) : json({ id: input.split("/").at(-1), app: "home", title: "Lights" });
    }),
  );
});
afterEach(() => {
  inbox.close();
  vi.useRealTimers();
});

const state = () => inbox.store.getState();

test("it holds all of it, however many pages that are", async () => {
  const pages: Record<string, unknown> = { "": { interactions: [row("a")], next: "1" }, "1": { interactions: [row("b")], next: "2" }, "2": { interactions: [row("c")] } };
  inbox = new Inbox(
    createClient("http://h/", async (input) =>
      input.includes("interactions") ? json(pages[new URL(input).searchParams.get("cursor") ?? ""]) : json({ id: "S", app: "home", title: "Lights" }),
    ),
  );
  await inbox.refresh();
  expect(state().rows?.map((r) => r.id)).toEqual(["a", "b", "c"]);
});

test("it holds open interactions, with their sessions, each requested once", async () => {
  rows = [row("a"), row("b"), { ...row("c"), open: false }, row("d", "R")];
  await inbox.refresh();
  expect(state().rows?.map((r) => r.id)).toEqual(["a", "b", "d"]);
  expect(Object.keys(state().sessions).sort()).toEqual(["R", "S"]);
  await inbox.refresh();
  expect(asked).toEqual(["interactions?limit=200", "sessions/S", "sessions/R", "interactions?limit=200"]);
});

test("asked to look while it looks, it looks once more", async () => {
  const first = inbox.refresh();
  rows = [row("a")];
  void inbox.refresh();
  void inbox.refresh();
  await first;
  expect(state().rows).toHaveLength(1);
  expect(asked.filter((a) => a.startsWith("interactions"))).toHaveLength(2);
});

test("it looks now and then while the page is seen, and at once when it is seen again", async () => {
  inbox.start();
  await vi.advanceTimersByTimeAsync(45_000);
  expect(asked).toHaveLength(3);
  inbox.visible(false);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(asked).toHaveLength(3);
  inbox.visible(true);
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toHaveLength(4);
});

test("known interactions stay when the server cannot be reached", async () => {
  rows = [row("a")];
  await inbox.refresh();
  down = true;
  await inbox.refresh();
  expect(state()).toMatchObject({ rows: [{ id: "a" }], error: { code: "unreachable" } });
  down = false;
  await inbox.refresh();
  expect(state().error).toBeUndefined();
});

test("a call that is offered to clients waits for a client, and a person goes first", () => {
  const of = (session: string, kind: InteractionRow["kind"]) => ({ ...row(kind, session), kind }) as InteractionRow;
  const rows = [of("a", "client"), of("b", "client"), of("b", "permission"), of("c", "question")];
  expect(["a", "b", "c", "d"].map((s) => awaitedIn(rows, s))).toEqual(["client", "person", "person", undefined]);
});
