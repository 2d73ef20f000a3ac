import { describe, expect, test } from "vitest";

import type { Fetch } from "./client.ts";
import { createKeyring } from "./keyring.ts";

/** A server that accepts some keys, and records the keys that it receives. */
function server(...good: string[]) {
  const seen: string[] = [];
  const fetch: Fetch = async (_input, init) => {
    await Promise.resolve();
    const sent = new Headers(init?.headers).get("Authorization")?.replace("Bearer ", "") ?? "";
    seen.push(sent);
    if (good.includes(sent)) return new Response(`hello ${init?.body ? String(init.body) : sent}`);
    return new Response("{}", { status: 401, headers: { "WWW-Authenticate": 'Bearer realm="parley"' } });
  };
  return { fetch, seen, good };
}

function memory(start: Record<string, string> = {}) {
  const kept = new Map(Object.entries(start));
  return {
    kept,
    storage: () => ({
      getItem: (k: string) => kept.get(k) ?? null,
      setItem: (k: string, v: string) => void kept.set(k, v),
      removeItem: (k: string) => void kept.delete(k),
    }),
  };
}

const until = async (ok: () => boolean) => {
  for (let i = 0; i < 100 && !ok(); i++) await Promise.resolve();
  expect(ok()).toBe(true);
};

describe("a keyring", () => {
  test("sends nothing where nothing is asked for", async () => {
    const s = server("");
    const k = createKeyring(s.fetch, memory().storage);
    expect(await (await k.fetch("/v1/apps")).text()).toBe("hello ");
    expect(k.store.getState()).toEqual({ asked: false, refused: false, ended: false });
    expect(k.locked()).toBe(false);
  });

  test("holds requests until there is a key, and makes them again with it", async () => {
    const s = server("pk_good");
    const m = memory();
    const k = createKeyring(s.fetch, m.storage);
    const two = Promise.all([k.fetch("/a"), k.fetch("/b", { method: "POST", body: "body" })]);
    await until(() => k.store.getState().asked);
    expect(k.store.getState().refused).toBe(false);
    k.unlock(" pk_good ");
    expect(await Promise.all((await two).map((r) => r.text()))).toEqual(["hello pk_good", "hello body"]);
    expect(k.store.getState()).toEqual({ asked: false, refused: false, ended: false });
    expect(k.locked()).toBe(true);
    expect(m.kept.get("parley.key")).toBe("pk_good");
    expect(s.seen).toEqual(["", "", "pk_good", "pk_good"]);
  });

  test("asks again for one that is not good, and forgets it", async () => {
    const s = server("pk_good");
    const m = memory({ "parley.key": "pk_old" });
    const k = createKeyring(s.fetch, m.storage);
    const answer = k.fetch("/a");
    await until(() => k.store.getState().asked);
    expect(k.store.getState().refused).toBe(true);
    expect(m.kept.size).toBe(0);
    k.unlock("pk_wrong");
    await until(() => k.store.getState().asked);
    expect(k.store.getState().refused).toBe(true);
    k.unlock("");
    expect(k.store.getState().asked).toBe(true);
    k.unlock("pk_good");
    expect((await answer).status).toBe(200);
  });

  test("uses a key that another request got meanwhile", async () => {
    const s = server("pk_good");
    const k = createKeyring(s.fetch, memory().storage);
    const first = k.fetch("/a");
    await until(() => k.store.getState().asked);
    const late = k.fetch("/b"); // sent without a key, still unanswered
    k.unlock("pk_good");
    expect((await first).status).toBe(200);
    expect((await late).status).toBe(200);
    expect(k.store.getState().asked).toBe(false);
  });

  test("lets go of a request that is given up", async () => {
    const s = server("pk_good");
    const k = createKeyring(s.fetch, memory().storage);
    const stop = new AbortController();
    const answer = k.fetch("/a", { signal: stop.signal });
    await until(() => k.store.getState().asked);
    stop.abort(new Error("gone"));
    await expect(answer).rejects.toThrow("gone");
  });

  test("leaves a refusal alone that is not the server's own, as of a proxy with a login", async () => {
    const k = createKeyring(async () => Promise.resolve(new Response("", { status: 401 })), memory().storage);
    expect((await k.fetch("/a")).status).toBe(401);
    expect(k.store.getState().asked).toBe(false);
  });

  test("works without storage", async () => {
    const s = server("pk_good");
    const k = createKeyring(s.fetch, () => {
      throw new Error("no storage");
    });
    const answer = k.fetch("/a");
    await until(() => k.store.getState().asked);
    k.unlock("pk_good");
    expect((await answer).status).toBe(200);
  });
});
