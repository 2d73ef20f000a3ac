import { expect, test } from "vitest";

import { browserName, mayDo, shortName } from "./names.ts";

test("browsers have names that people know", () => {
  for (const [agent, name] of [
    ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
    ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1", "Safari on iPhone"],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"],
    ["curl/8.1", "curl/8.1"],
    ["", "A browser"],
    [undefined, "A browser"],
  ] as const) {
    expect(browserName(agent)).toBe(name);
  }
});

test("what a key may do", () => {
  expect(mayDo(undefined)).toBe("may do everything");
  expect(mayDo(["read", "send"])).toBe("may look, send messages");
  expect(mayDo(["toString"])).toContain("may ");
});

test("a user of a provider has a short name", () => {
  expect(shortName("acme:auth0|5f")).toBe("auth0|5f");
  expect(shortName("ana")).toBe("ana");
});
