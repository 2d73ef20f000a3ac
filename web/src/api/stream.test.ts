import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { FakeParley } from "../testing/fake.ts";
import { createClient } from "./client.ts";
import { Slots } from "./slots.ts";
import { follow, type Connection, type Frame } from "./stream.ts";

/** Follows a session and records what it receives. */
function record(server: FakeParley, session: string, after = 0, slots = new Slots()) {
  const frames: Frame[] = [];
  const states: Connection["state"][] = [];
  let refused: Connection | undefined;
  const following = follow(
    createClient("http://parley.test/", server.fetch, undefined, slots),
    session,
    after,
    {
      frames: (f) => frames.push(...f),
      connection: (c) => {
        states.push(c.state);
        if (c.state === "refused") refused = c;
      },
    },
    () => 0.5,
  );
  const seqs = () => frames.flatMap((f) => (f.kind === "event" ? [f.event.seq] : []));
  return { frames, states, seqs, following, refused: () => refused };
}

const settle = () => vi.advanceTimersByTimeAsync(0);

describe("follow", () => {
  let server: FakeParley;
  let session: string;

  beforeEach(() => {
    vi.useFakeTimers();
    server = new FakeParley();
    session = server.create("a").id;
  });
  afterEach(() => vi.useRealTimers());

  test("replays from the beginning, then stays with the live end", async () => {
    server.begin(session, "one");
    const r = record(server, session);
    await settle();
    server.emit(session, "session.updated", { data: { title: "x" } });
    await settle();
    expect(r.seqs()).toEqual([1, 2, 3]);
    expect(r.states).toEqual(["connecting", "live"]);
    r.following.close();
  });

  test("a cut after every event loses nothing and repeats nothing", async () => {
    const r = record(server, session);
    for (let i = 0; i < 10; i++) {
      await settle();
      server.emit(session, "session.updated", { data: { title: String(i) } });
      await settle();
      server.cut();
      server.emit(session, "session.updated", { data: { title: `missed ${i}` } });
      await vi.advanceTimersByTimeAsync(20_000);
    }
    expect(r.seqs()).toEqual(Array.from({ length: 21 }, (_, i) => i + 1));
    expect(server.requests.at(-1)).toBe(`GET v1/sessions/${session}/events?after=20`);
    r.following.close();
  });

  test("a partial after a cut replaces the missed fragments", async () => {
    const turn = server.begin(session, "one");
    server.emit(session, "model.started", { turn, agent: "i", data: { call: "c", model: "m", context: "0", reserved: { input_tokens: 0, output_tokens: 0 } } });
    const r = record(server, session);
    await settle();
    server.delta(session, turn, "i", "c", "a");
    await settle();
    server.cut();
    server.delta(session, turn, "i", "c", "b");
    await vi.advanceTimersByTimeAsync(1000);
    server.delta(session, turn, "i", "c", "c");
    await settle();
    expect(r.frames.filter((f) => f.kind === "delta" || f.kind === "partial").map((f) => [f.kind, f.delta.n, f.delta.text])).toEqual([
      ["delta", 1, "a"],
      ["partial", 2, "ab"],
      ["delta", 3, "c"],
    ]);
    r.following.close();
  });

  test("waits longer after each failure, and not longer than a server that asks for less", async () => {
    server.down = true;
    const r = record(server, session);
    await vi.advanceTimersByTimeAsync(60_000);
    const tries = server.requests.length;
    expect(tries).toBeGreaterThan(6);
    expect(tries).toBeLessThan(16);
    server.down = false;
    r.following.retry();
    await settle();
    expect(r.seqs()).toEqual([1]);
    r.following.close();
  });

  test("waits as long as the server asks", async () => {
    let refusals = 1;
    server.intercept = () =>
      refusals-- > 0 ? new Response('{"error":{"code":"unavailable","message":"starting"}}', { status: 503, headers: { "Retry-After": "7" } }) : undefined;
    const r = record(server, session);
    await vi.advanceTimersByTimeAsync(6_900);
    expect(r.seqs()).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    expect(r.seqs()).toEqual([1]);
    r.following.close();
  });

  test("a session that is not there is not asked for again", async () => {
    const r = record(server, "nowhere");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(r.refused()).toMatchObject({ error: { code: "not_found", status: 404, hint: "it may have been deleted" } });
    expect(server.requests).toHaveLength(1);
    r.following.close();
  });

  test("a silent connection counts as dead", async () => {
    const r = record(server, session);
    await vi.advanceTimersByTimeAsync(46_000);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(server.requests).toHaveLength(2);
    expect(r.states.slice(0, 5)).toEqual(["connecting", "live", "waiting", "connecting", "live"]);
    r.following.close();
  });

  test("a reset changes nothing: the partials after it do", async () => {
    server.intercept = (_, path) =>
      path.endsWith("/events")
        ? new Response(
            'id: 1\nevent: session.created\ndata: {"session":"x","seq":1,"type":"session.created","data":{}}\n\n' +
              'event: reset\ndata: {"session":"x","after":1,"reason":"slow reader"}\n\n' +
              'event: model.partial\ndata: {"session":"x","call":"c","n":9,"text":"all"}\n\n',
          )
        : undefined;
    const r = record(server, session);
    await settle();
    expect(r.frames.map((f) => f.kind)).toEqual(["event", "partial"]);
    r.following.close();
  });

  test("an error that ends the stream is told when it is for good, and waited out when not", async () => {
    let code = "unavailable";
    server.intercept = (_, path) =>
      path.endsWith("/events") ? new Response(`event: error\ndata: {"error":{"code":"${code}","message":"m","retry_after_ms":5000}}\n\n`) : undefined;
    const r = record(server, session);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(server.requests).toHaveLength(1);
    code = "not_found";
    await vi.advanceTimersByTimeAsync(200);
    expect(r.refused()).toMatchObject({ error: { code: "not_found", message: "m" } });
    r.following.close();
  });

  test("asks again when a number is missing, and keeps what came before it", async () => {
    let once = true;
    server.emit(session, "session.updated", { data: { title: "two" } });
    server.emit(session, "session.updated", { data: { title: "three" } });
    server.intercept = (_, path) => {
      if (!once || !path.endsWith("/events")) return undefined;
      once = false;
      const [one, , three] = server.sessions.get(session)?.events ?? [];
      return new Response([one, three].map((e) => `id: ${e?.seq}\ndata: ${JSON.stringify(e)}\n\n`).join(""));
    };
    const r = record(server, session);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(r.seqs()).toEqual([1, 2, 3]);
    r.following.close();
  });

  test("paused, it holds no connection, and goes on where it was", async () => {
    const r = record(server, session);
    await settle();
    r.following.pause();
    server.emit(session, "session.updated", { data: { title: "x" } });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(r.seqs()).toEqual([1]);
    expect(server.sessions.get(session)?.streams.size).toBe(0);
    r.following.resume();
    await settle();
    expect(r.seqs()).toEqual([1, 2]);
    r.following.close();
  });

  describe("while other tabs have all the slots", () => {
    let slots: Slots;
    let others: (() => void)[];
    const rename = (title: string) => server.emit(session, "session.updated", { data: { title } });
    /** The other tabs take all slots, or release them. */
    const occupy = () => {
      for (let release = slots.take("session", () => undefined); release; release = slots.take("session", () => undefined)) others.push(release);
    };
    const leave = () => {
      for (const release of others.splice(0)) release();
    };

    beforeEach(() => {
      slots = new Slots();
      others = [];
      occupy();
    });
    afterEach(leave);

    test("it reads pages, keeps no connection, and counts as live", async () => {
      const r = record(server, session, 0, slots);
      await settle();
      rename("two");
      await vi.advanceTimersByTimeAsync(1500);
      expect(r.seqs()).toEqual([1, 2]);
      expect(server.sessions.get(session)?.streams.size).toBe(0);
      await vi.advanceTimersByTimeAsync(15_000);
      expect(r.states).toEqual(["connecting", "live"]);
      expect(server.requests).toHaveLength(12);
      expect(server.requests.at(-1)).toBe(`GET v1/sessions/${session}/events?format=json&limit=1000&after=2`);
      r.following.retry();
      expect(server.requests, "at once when it is asked to").toHaveLength(13);
      r.following.close();
      await vi.advanceTimersByTimeAsync(15_000);
      expect(server.requests).toHaveLength(13);
    });

    test("a long log is read page after page without waiting", async () => {
      for (let i = 0; i < 2500; i++) rename(String(i));
      const r = record(server, session, 0, slots);
      await vi.advanceTimersByTimeAsync(10);
      expect(r.seqs()).toEqual(Array.from({ length: 2501 }, (_, i) => i + 1));
      r.following.close();
    });

    test("each event comes once, whenever the slot comes and goes", async () => {
      const r = record(server, session, 0, slots);
      for (let i = 0; i < 12; i++) {
        rename(`${i} before`);
        if (i % 2 === 0) leave();
        else {
          // While this tab was hidden, others took the slots.
          r.following.pause();
          occupy();
          r.following.resume();
        }
        rename(`${i} during`);
        await vi.advanceTimersByTimeAsync(i % 3 === 0 ? 1500 : 100);
        rename(`${i} after`);
        if (i % 4 === 3) server.cut();
        await vi.advanceTimersByTimeAsync(2000);
      }
      await vi.advanceTimersByTimeAsync(5000);
      expect(r.seqs()).toEqual(Array.from({ length: 37 }, (_, i) => i + 1));
      r.following.close();
    });

    test("a slot that another tab took is given up, and reading goes on", async () => {
      leave();
      const shelf = new Map<string, string>();
      const mine = new Slots({ getItem: (k) => shelf.get(k) ?? null, setItem: (k, v) => void shelf.set(k, v), removeItem: (k) => void shelf.delete(k) });
      const r = record(server, session, 0, mine);
      await settle();
      expect(server.sessions.get(session)?.streams.size).toBe(1);
      for (const n of [0, 1, 2]) shelf.set(`parley.slot.session.${n}`, `other ${Date.now() + 9000}`);
      rename("two");
      await vi.advanceTimersByTimeAsync(2000);
      expect(server.sessions.get(session)?.streams.size).toBe(0);
      rename("three");
      await vi.advanceTimersByTimeAsync(1500);
      expect(r.seqs()).toEqual([1, 2, 3]);
      expect(r.states).toEqual(["connecting", "live"]);
      r.following.close();
    });

    test("text in flight is whole when the slot comes in the middle of it", async () => {
      const turn = server.begin(session, "one");
      server.emit(session, "model.started", { turn, agent: "i", data: { call: "c", model: "m", context: "0", reserved: { input_tokens: 0, output_tokens: 0 } } });
      const r = record(server, session, 0, slots);
      await settle();
      server.delta(session, turn, "i", "c", "a");
      await vi.advanceTimersByTimeAsync(1500);
      leave();
      server.delta(session, turn, "i", "c", "b");
      await vi.advanceTimersByTimeAsync(1500);
      expect(r.frames.filter((f) => f.kind !== "event").map((f) => [f.kind, f.delta.text])).toEqual([["partial", "ab"]]);
      r.following.close();
    });

    test("a failure is waited out, and a session that is gone is not asked for again", async () => {
      const r = record(server, session, 0, slots);
      await settle();
      server.down = true;
      await vi.advanceTimersByTimeAsync(1500);
      expect(r.states.at(-1)).toBe("waiting");
      server.down = false;
      rename("two");
      await vi.advanceTimersByTimeAsync(2000);
      expect(r.seqs()).toEqual([1, 2]);
      expect(r.states.at(-1)).toBe("live");
      server.sessions.delete(session);
      await vi.advanceTimersByTimeAsync(2000);
      expect(r.refused()).toMatchObject({ error: { code: "not_found" } });
      r.following.close();
    });

    test("paused while a page comes, it takes nothing from it and nothing is lost", async () => {
      const r = record(server, session, 0, slots);
      r.following.pause();
      await vi.advanceTimersByTimeAsync(10_000);
      expect(r.seqs()).toEqual([]);
      r.following.resume();
      await settle();
      expect(r.seqs()).toEqual([1]);
      r.following.close();
    });
  });
});
