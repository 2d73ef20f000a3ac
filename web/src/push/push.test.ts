import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { Client } from "../api/client.ts";
import { leave, ownDevice } from "./push.ts";

const base = "https://parley.example/";
let did: string[];
const client = (fails = false) =>
  ({
    base,
    request: (method: string, path: string) => {
      did.push(`${method} ${path}`);
      return fails ? Promise.reject(new Error("offline")) : Promise.resolve(undefined);
    },
  }) as unknown as Client;

beforeEach(() => {
  did = [];
  const kept = new Map([[`parley.device ${base}`, "D1"]]);
  vi.stubGlobal("localStorage", {
    getItem: (k: string) => kept.get(k) ?? null,
    setItem: (k: string, v: string) => kept.set(k, v),
    removeItem: (k: string) => kept.delete(k),
  });
  const subscription = { unsubscribe: () => Promise.resolve(did.push("unsubscribe") > 0) };
  const registration = { pushManager: { getSubscription: () => Promise.resolve(subscription) } };
  vi.stubGlobal("navigator", { serviceWorker: { getRegistration: () => Promise.resolve(registration) } });
});
afterEach(() => vi.unstubAllGlobals());

test("who signs out is no longer notified here", async () => {
  await leave(client());
  expect(did).toEqual(["unsubscribe", "DELETE v1/devices/D1"]);
  expect(ownDevice(base)).toBe("");
  await leave(client());
  expect(did).toHaveLength(2);
});

test("signing out goes on when the device cannot be removed", async () => {
  await leave(client(true));
  expect(did[0]).toBe("unsubscribe");
  expect(ownDevice(base)).toBe("");
});
