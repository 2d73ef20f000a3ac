import { expect, test } from "vitest";

import { became, browserName, inWords, mayDo, shortName } from "./names.ts";

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

test("when a schedule runs, in words where they are short", () => {
  for (const [cron, zone, words] of [
    ["0 7 * * mon-fri", "Europe/Zurich", "weekdays at 07:00 in Zurich"],
    ["30 4 * * *", "UTC", "every day at 04:30 UTC"],
    ["5 * * * *", "America/New_York", "every hour at :05"],
    ["0 9 * * MON", "America/New_York", "Mondays at 09:00 in New York"],
    ["@daily", "", "every day at 00:00 UTC"],
    ["@hourly", "Europe/Zurich", "every hour"],
    ["*/10 9-17 1 * *", "Europe/Zurich", "*/10 9-17 1 * * in Zurich"],
  ] as const) {
    expect(inWords({ cron, time_zone: zone })).toBe(words);
  }
  expect(inWords({ cron: "@hourly", time_zone: "UTC", on_change_seconds: 600 })).toBe("every hour, and when the lake was changed");
  expect(inWords({ cron: "", time_zone: "UTC", on_change_seconds: 600 })).toBe("when the lake was changed");
});

test("what became of a run", () => {
  expect(became({ outcome: "begun", status: "completed" })).toBe("Completed");
  expect(became({ outcome: "begun", status: "streaming" })).toBe("Running since");
  expect(became({ outcome: "begun" })).toBe("Ran");
  expect(became({ outcome: "missed" })).toBe("Missed");
});
