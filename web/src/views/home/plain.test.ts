import { describe, expect, test } from "vitest";

import { plainly } from "./plain.ts";

const entities = new Map([
  ["light.bedroom_ceiling", { name: "Bedroom ceiling" }],
  ["automation.bedtime", { name: "Bedtime" }],
]);

describe("what tools give", () => {
  test("has names for ids, and the clock of the house", () => {
    expect(
      plainly(
        "Logbook from 2026-11-20 20:00:00Z to 2026-11-21 08:00:00Z: 2 entries.\n2026-11-21 00:27:40Z light.bedroom_ceiling (Bedroom ceiling) → off, by automation.bedtime (Bedtime)\nnow: Saturday 2026-11-21 09:00Z (UTC)",
        entities,
      ),
    ).toBe("Logbook from 20 Nov 20:00 to 08:00: 2 entries.\n00:27 Bedroom ceiling → off, by Bedtime");
  });

  test("puts an instant into the zone that is told", () => {
    expect(plainly("at 2026-07-01T22:30:00.123Z\nnow: Wednesday 2026-07-01 23:45+01:00 (Europe/Lisbon)", entities)).toBe("at 23:30");
  });

  test("leaves what it does not know", () => {
    const text = 'light.unknown, 1.5 kWh, {"start":"last night"}, light.turn_on, a.b';
    expect(plainly(text, entities)).toBe(text);
  });

  test("says where a person is in words", () => {
    expect(plainly("2 entities (2 not_home)", entities)).toBe("2 entities (2 away)");
  });

  test("keeps what stands beside a name", () => {
    expect(plainly("light.bedroom_ceiling (unavailable for 3s)", entities)).toBe("Bedroom ceiling (unavailable for 3s)");
  });
});
