import { expect, test } from "vitest";

import type { Event } from "../../api/types.gen.ts";
import { chartType, clockIn, heightFor, momentIn, plotsOf, readChart, readHistory, stampIn, stopsOf, summaryOf, valueAt, windowText } from "./chart.ts";

const from = Date.parse("2026-11-20T22:00:00Z");
const minute = 60_000;

const raw = {
  from,
  to: from + 60 * minute,
  zone: "America/New_York",
  series: [
    { entity_id: "sensor.v", name: "Voltage", unit: "V", points: [[from, 231.4], [from + minute, 196.3], [from + 2 * minute, null]], states: [], marks: [{ at: from + minute, state: "196.3" }] },
    { entity_id: "binary_sensor.door", name: "Door", device_class: "door", points: [], states: [[from, "off"], [from + minute, "on"], [from + 5 * minute, "unavailable"]], marks: [] },
  ],
};

test("a chart says in words what it shows, by the clock of the house", () => {
  const c = readChart(raw);
  const [volts, door] = c?.series ?? [];
  if (!c || !volts || !door) throw new Error("it was not read");
  expect(windowText(c)).toBe("Fri 20 Nov 17:00 – 18:00");
  expect([clockIn(c.zone, from), momentIn(c.zone, from + 1000), stampIn(c.zone, from)]).toEqual(["17:00", "Fri 20 Nov, 17:00:01", "2026-11-20 17:00:00"]);
  expect([summaryOf(volts), summaryOf(door)]).toEqual(["196.3 to 231.4 V", "2 changes"]);
  expect([0, 1, 2, 30].map((m) => valueAt(volts, from + m * minute))).toEqual(["231.4 V", "196.3 V", "no value", "no value"]);
  expect([-1, 0, 3, 9].map((m) => valueAt(door, from + m * minute))).toEqual(["", "Closed", "Open", "Unavailable"]);
  expect([stopsOf(volts), stopsOf(door)]).toEqual([[{ at: from + minute, text: "196.3 V" }], [{ at: from + 5 * minute, text: "Unavailable" }]]);
});

test("other data is not drawn as a chart, and an unknown zone is UTC", () => {
  for (const bad of [null, 7, "x", {}, { from: 1, to: 1, series: [] }, { from: 1, to: 2 }]) expect(readChart(bad)).toBeUndefined();
  expect(readChart({ ...raw, zone: "Mars/Olympus" })?.zone).toBe("UTC");
  expect(readHistory({ ...raw, series: undefined, entity_id: "light.a", points: [], states: [[from, "on"]] })?.series[0]?.name).toBe("light.a");
});

const event = (type: string, data: unknown) => ({ session: "s", seq: 1, time: "", type, data }) as Event;
const ref = (id: string, media_type: string, call = "c") => event("artifact.stored", { id, name: id, media_type, size: 1, sha256: "", call });

test("a picture is that of the values that its call kept; of old sessions it is all there is", () => {
  const ended = event("tool.ended", { call: "c", outcome: "ok", output: "", data: { entities: [{ min: 1 }, {}] } });
  const now = plotsOf([ref("png", "image/png"), ref("json", chartType), ended, ref("other", "image/png", "d"), ref("csv", "text/csv", "d")]);
  expect(now.plots.map((p) => [p.chart.id, p.image?.id, p.numbers])).toEqual([["json", "png", [true, false]]]);
  expect(now.rest.map((a) => a.id)).toEqual(["other", "csv"]);
  const old = plotsOf([ref("png", "image/png"), event("tool.ended", { call: "c", outcome: "ok", output: "", artifact: { id: "png", name: "png", media_type: "image/png", size: 1, sha256: "" } })]);
  expect([old.plots, old.rest.map((a) => a.id)]).toEqual([[], ["png"]]);
  expect(heightFor([true, false])).toBe(heightFor([]) + heightFor([true]) + heightFor([false]) - 2 * heightFor([]));
});
