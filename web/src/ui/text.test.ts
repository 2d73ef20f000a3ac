import { expect, test } from "vitest";

import { ago, byWhom, clock, count, dollars, lasted, sentence, when, outputText } from "./text.ts";

const now = Date.parse("2026-03-10T12:00:00Z");

test.each([
  ["2026-03-10T11:59:50Z", "just now"],
  ["2026-03-10T12:05:00Z", "just now"], // a clock that is fast
  ["2026-03-10T11:55:00Z", "5 min ago"],
  ["2026-03-10T09:00:00Z", "3 hr ago"],
  ["2026-03-09T11:00:00Z", "yesterday"],
  ["2026-01-15T12:00:00Z", "15 Jan"],
  ["2025-01-15T12:00:00Z", "15 Jan 2025"],
  ["nonsense", ""],
])("ago(%s) is %j", (iso, text) => expect(ago(iso, now)).toBe(text));

test("lengths and amounts are as exact as they are small", () => {
  expect([3, 800, 9960, 12_400, 59_700, 60_000, 119_600, 125_000].map(lasted)).toEqual(["0.1 s", "0.8 s", "10 s", "12 s", "1 min", "1 min", "2 min", "2 min 5 s"]);
  expect([0, 0.00001, 0.0123, 1.5].map(dollars)).toEqual(["$0.00", "under $0.0001", "$0.0123", "$1.50"]);
  expect(count(12345)).toBe("12,345");
});

test("a server's words become a sentence", () => {
  expect(["a turn is running", "Wait.", "", undefined, "try again?", 'there is no app "x"', "it said “no.”"].map(sentence)).toEqual(["A turn is running.", "Wait.", "", "", "Try again?", 'There is no app "x".', "It said “no.”"]);
  expect(sentence("open the page\nhttps://pay.example.com/x?y=1")).toBe("Open the page\nhttps://pay.example.com/x?y=1");
  expect(["desk/app.yaml:3: unknown key", "read_mail is off", "ana@example.com is unknown"].map(sentence)).toEqual(["desk/app.yaml:3: unknown key.", "read_mail is off.", "ana@example.com is unknown."]);
});

test.each([
  ["", ""],
  ["local", ""],
  ["ana@example.com", "by ana@example.com"],
  ["6f1b2c3d4e5f60718293a4b5c6d7e8f9", "by you"],
])("byWhom(%j) is %j", (user, words) => expect(byWhom(user)).toBe(words));

// The result must not depend on the time zone of the machine: times are in the reader's zone.
test("a time of day is the reader's, and says which day when it is another", () => {
  const noon = new Date(2026, 2, 10, 12, 0).getTime();
  const hours = (n: number) => noon + n * 3_600_000;
  expect([clock(hours(9) + 180_000), clock("nonsense")]).toEqual(["21:03", ""]);
  expect([0, 11_400, 95_000, hours(9) - noon, hours(13) - noon, hours(61) - noon].map((ms) => when(noon + ms, noon))).toEqual([
    "", "in 12 s", "at 12:01", "at 21:00", "tomorrow at 01:00", "on 13 Mar at 01:00",
  ]);
  expect(when(Number.NaN, noon)).toBe("");
});

test.each([
  ['"Added Uwe.\\nDone."', "Added Uwe.\nDone."],
  ['""', ""],
  ["It is on.", "It is on."],
  ['{"a":"b"}', '{"a":"b"}'],
  ["12", "12"],
  ['"cut off', '"cut off'],
  ['"Yes" and "no"', '"Yes" and "no"'],
])("outputText(%s)", (output, want) => expect(outputText(output)).toBe(want));
