import { expect, test, vi } from "vitest";

import { NoToken, signed, Tokens } from "./token.ts";

const jwt = (claims: object) => `h.${btoa(JSON.stringify(claims)).replace(/=+$/, "")}.s`;

test("a token is asked for when it is missing or ends by its own words, once for all who wait", async () => {
  const tokens = new Tokens(() => 1_000_000);
  await expect(tokens.get()).rejects.toThrow(NoToken);
  const ask = vi.fn(async () => jwt({ sub: "ana", iss: "clerk", exp: 2000 }));
  tokens.from(ask);
  const [a, b] = await Promise.all([tokens.get(), tokens.get()]);
  expect(a).toBe(b);
  expect(ask.mock.calls).toEqual([["missing"]]);
  expect(tokens.who).toBe("clerk ana");
  tokens.set(`Bearer ${jwt({ exp: 1009 })}`);
  await tokens.get();
  expect(ask.mock.calls).toEqual([["missing"], ["expired"]]);
});

test("a token without a way to renew it is left to the server: this clock may be wrong", async () => {
  const tokens = new Tokens(() => 1_000_000);
  tokens.set(jwt({ exp: 5 }));
  expect(await tokens.get()).toBe(jwt({ exp: 5 }));
});

test("a page that cannot give a token says so", async () => {
  const tokens = new Tokens();
  tokens.from(() => Promise.reject(new Error("offline")));
  await expect(tokens.get()).rejects.toThrow("could not renew");
  tokens.from(() => null);
  await expect(tokens.get()).rejects.toThrow("not signed in");
});

test("a request that is refused is made again with another token, once", async () => {
  const tokens = new Tokens();
  tokens.set("old-token");
  tokens.from((why) => (why === "refused" ? "new-token" : null));
  const seen: string[] = [];
  const fetch = signed(
    async (_, init) => {
      const h = new Headers(init?.headers);
      seen.push(`${h.get("Authorization")} ${h.get("X-Org-Id")}`);
      return new Response(null, { status: seen.length < 2 ? 401 : 200 });
    },
    tokens,
    () => "o1",
  );
  expect((await fetch("http://x/")).status).toBe(200);
  expect(seen).toEqual(["Bearer old-token o1", "Bearer new-token o1"]);
  tokens.from(() => "new-token");
  seen.splice(0);
  expect((await signed(async () => new Response(null, { status: 401 }), tokens, () => "")("http://x/")).status).toBe(401);
});

test("who waits for a token gets it when the page gives it", async () => {
  const tokens = new Tokens();
  let known = 0;
  const waits = tokens.known().then(() => known++);
  await Promise.resolve();
  expect(known).toBe(0);
  tokens.set("a-token");
  await waits;
  expect(known).toBe(1);
  const later = new Tokens();
  const also = later.known();
  later.from(() => "b-token");
  await also;
});
