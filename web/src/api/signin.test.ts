import { describe, expect, test } from "vitest";

import { failedIn, signInUrl } from "./signin.ts";

const way = { name: "acme", title: "Acme", path: "v1/signin/acme" };

describe("the address at which a browser begins to sign in", () => {
  for (const [name, base, href, to] of [
    ["comes back to the page", "https://a.example/", "https://a.example/apps/home/?s=1#m", "/apps/home/?s=1#m"],
    ["below a prefix", "https://a.example/parley/", "https://a.example/parley/apps/home/", "/apps/home/"],
    ["without the failure before", "https://a.example/", "https://a.example/#signin=denied", "/"],
    ["of another server", "https://a.example/", "https://b.example/apps/home/", "/"],
  ] as const) {
    test(name, () => expect(signInUrl(base, way, href)).toBe(`${base}v1/signin/acme?to=${encodeURIComponent(to)}`));
  }
});

test("a failure has words of its own, and shows nothing of the address", () => {
  expect(failedIn("#signin=denied")).toContain("did not sign in");
  expect(failedIn("#signin=toString")).toBe("");
  expect(failedIn("#signin=constructor")).toBe(failedIn("#signin=failed"));
  expect(failedIn("#signin=Pay%20here")).toBe("");
  expect(failedIn("#m")).toBe("");
});
