import { expect, test } from "vitest";

import type { Entity } from "./entities.ts";
import { lineThrough, nameIn, rangeOf, spansOf, stateOf, thinned, toneOf } from "./format.ts";

const now = Date.parse("2026-03-10T12:00:00Z");
const entity = (state: string, more: Partial<Entity> = {}): Entity => ({ entity_id: "sensor.x", name: "X", domain: "sensor", state, available: true, ...more });

test.each<[Partial<Entity> & { state: string }, string, string]>([
  [{ state: "20.456", unit: "°C" }, "20.46 °C", "off"],
  [{ state: "47", unit: "%" }, "47%", "off"],
  [{ state: "1234.5", unit: "W" }, "1,234.5 W", "off"],
  [{ state: "on", domain: "light" }, "On", "on"],
  [{ state: "on", domain: "binary_sensor", device_class: "window" }, "Open", "on"],
  [{ state: "off", domain: "binary_sensor", device_class: "moisture" }, "Dry", "off"],
  [{ state: "on", domain: "binary_sensor", device_class: "moisture" }, "Wet", "bad"],
  [{ state: "unavailable" }, "Unavailable", "bad"],
  [{ state: "20", available: false }, "Unavailable", "bad"],
  [{ state: "unknown" }, "Unknown", "off"],
  [{ state: "partly_cloudy", domain: "weather" }, "Partly cloudy", "off"],
  [{ state: "2026-03-10T09:00:00Z", device_class: "timestamp" }, "3 hr ago", "off"],
  [{ state: "home", domain: "person" }, "Home", "on"],
])("%j reads %j", ({ state, ...more }, text, tone) => {
  expect(stateOf(entity(state, more), now)).toBe(text);
  expect(toneOf(entity(state, more))).toBe(tone);
});

test("thinned points keep the peaks and the ends in order", () => {
  const points = Array.from({ length: 1000 }, (_, i): [number, number] => [i, i === 500 ? -50 : i === 501 ? 90 : i % 3]);
  const few = thinned(points, 60);
  expect(few.length).toBeLessThanOrEqual(60);
  expect(rangeOf(few)).toEqual({ low: -50, high: 90 });
  expect(few.map((p) => p[0])).toEqual([...few.map((p) => p[0])].sort((a, b) => a - b));
  expect(thinned(points.slice(0, 3), 60)).toEqual(points.slice(0, 3));
  expect(thinned([], 60)).toEqual([]);
});

test("a line goes from left to right, and on to now", () => {
  expect(lineThrough([[0, 1], [50, 3]], 100, 20, 0, 100)).toBe("M0.0 19.0L50.0 1.0L100.0 1.0");
  expect(lineThrough([[0, 1], [50, 1]], 100, 20, 0, 100), "a level one is in the middle").toBe("M0.0 10.0L50.0 10.0L100.0 10.0");
  expect(lineThrough([], 100, 20, 0, 100)).toBe("");
});

test("a state holds until the next, within the window", () => {
  expect(spansOf([[-50, "on"], [25, "off"], [75, "on"]], 0, 100)).toEqual([
    { left: 0, width: 0.25, state: "on" },
    { left: 0.25, width: 0.5, state: "off" },
    { left: 0.75, width: 0.25, state: "on" },
  ]);
});

test("a name leaves out what its area says already", () => {
  const of = (name: string) => nameIn("Bedroom", entity("", { name }));
  expect(["Bedroom climate Humidity", "bedroom blind", "Bedside left", "Bedroom", "Bedrooms all", ""].map(of)).toEqual(["Climate Humidity", "Blind", "Bedside left", "Bedroom", "Bedrooms all", "sensor.x"]);
  expect(["Bedroom Motion Motion", "Bedroom Smoke smoke alarm", "Bedroom no nonsense"].map(of)).toEqual(["Motion", "Smoke alarm", "No nonsense"]);
  expect(nameIn("", entity("", { name: "Bedroom blind" }))).toBe("Bedroom blind");
});

