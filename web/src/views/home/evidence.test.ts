import { expect, test } from "vitest";

import { readChart, type Chart } from "./chart.ts";
import { leadsIn, lineAbout, quoted, targetOf, type Evidence, type Target } from "./evidence.ts";

const at = (text: string) => Date.parse(`2026-11-${text}Z`);

// A house in Berlin: its clock is an hour ahead of UTC.
const chart = readChart({
  from: at("21T00:00:00"),
  to: at("22T00:00:00"),
  zone: "Europe/Berlin",
  series: [
    {
      entity_id: "sensor.volts",
      name: "Mains voltage",
      unit: "V",
      points: [
        [at("21T00:00:00"), 231.4],
        [at("21T10:00:00"), 230],
        [at("21T21:34:10"), 201.8],
        [at("21T21:34:20"), 230.6],
        [at("21T22:17:05"), 196.3],
        [at("21T22:17:15"), null],
        [at("21T22:20:00"), 230],
      ],
      marks: [
        { at: at("21T21:34:10"), state: "201.8" },
        { at: at("21T22:17:05"), state: "196.3" },
      ],
    },
    { entity_id: "sensor.power", name: "Heat pump", unit: "W", points: [[at("21T00:00:00"), 349], [at("21T22:17:05"), 3940]], marks: [{ at: at("21T22:17:05"), state: "3940" }] },
    { entity_id: "light.bedroom", name: "Bedroom lights", states: [[at("21T00:00:00"), "off"], [at("21T20:53:53"), "on"], [at("21T22:17:05"), "unavailable"], [at("21T22:17:08"), "on"]] },
  ],
}) as Chart;

const evidence: Evidence = {
  charts: [{ plot: "A", chart }],
  said: [
    { turn: "t", seq: 9, text: "sensor.volts (Mains voltage)\n  min 196.3 V at 2026-11-21 23:17:05+01:00, mean 231.2381 V\n  unusual values:\n    2026-11-21 23:17:05+01:00 196.3 V" },
    { turn: "t", seq: 7, text: "WARNING of shelly ×5\n  undervoltage on phase A: 197.7 V\n2 unusual moments, off 86.0%\nlight.garden at 2026-11-10 08:00:00+01:00 → on" },
  ],
};

/** The links in a text and their targets, in short form. */
function led(text: string, ev = evidence): string[] {
  return leadsIn(text, ev).map((l) => `${text.slice(l.from, l.to)} = ${short(l.target)}`);
}

function short(t: Target | undefined): string {
  if (!t) return "nothing";
  if (t.kind === "line") return `line ${t.seq}: ${t.text}`;
  const when = new Date(t.at).toISOString().slice(8, 19);
  return t.kind === "point" ? `${t.entity} ${when}` : `past of ${t.entity} ${when}`;
}

test.each([
  ["a value that stands out", "It fell to 196.3 V.", ["196.3 V = sensor.volts 21T22:17:05"]],
  ["a rounded value", "It fell to 196 V.", ["196 V = sensor.volts 21T22:17:05"]],
  ["a value with its time", "201.8 V at 22:34", ["201.8 V = sensor.volts 21T21:34:10", "22:34 = sensor.volts 21T21:34:10"]],
  ["an ordinary value, which its time makes one of many", "It was 230 V at 23:20.", ["230 V = sensor.volts 21T22:20:00", "23:20 = sensor.volts 21T22:20:00"]],
  ["thousands", "It drew 3,940 W.", ["3,940 W = sensor.power 21T22:17:05"]],
  ["a mean is of no moment", "The mean was 231.2 V.", ["231.2 V = line 9: 231.2381 V"]],
  ["a time of the house, with seconds", "At 23:17:05 something happened.", ["23:17:05 = light.bedroom 21T22:17:05"]],
  ["a time of who is named before it", "Bedroom lights: 23:17:05", ["Bedroom lights = light.bedroom 21T22:17:05", "23:17:05 = light.bedroom 21T22:17:05"]],
  ["a whole stamp", "2026-11-21 21:53:53+01:00", ["2026-11-21 21:53:53+01:00 = light.bedroom 21T20:53:53"]],
  ["the same clock on another day is not it", "2026-11-20 21:53:53+01:00", []],
  ["a figure that only the log has", "Phase A had 197.7 V.", ["197.7 V = line 7: 197.7 V"]],
  ["a count", "There were 2 unusual moments.", ["2 unusual = line 7: 2 unusual"]],
  ["a share", "It was off 86% of the time.", ["86% = line 7: 86.0%"]],
  ["an entity", "See `sensor.power`.", ["sensor.power = sensor.power 21T22:17:05"]],
  ["a moment before the chart, which the log has", "light.garden went on at 2026-11-10 08:00", ["2026-11-10 08:00 = line 7: 2026-11-10 08:00"]],
  ["a moment that only the house may know", "light.garden went on at 2026-11-09 08:00:00", ["2026-11-09 08:00:00 = past of light.garden 09T07:00:00"]],
  ["what nobody said", "It was 17 °C at 04:44 on 12 days.", []],
  ["no part of a number or a word", "v1.196.3, 196.3Vx and 1196.3 V", []],
])("%s", (_, text, want) => {
  expect(led(text)).toEqual(want);
});

test("without evidence nothing leads anywhere", () => {
  expect(leadsIn("196.3 V at 23:17:05", { charts: [], said: [] })).toEqual([]);
});

test.each([
  ["the moment of its quote", { ref: "sensor.volts", quote: "201.8 V at 2026-11-21 22:34:10+01:00" }, "sensor.volts 21T21:34:10"],
  ["what stands out, where the quote has no moment", { ref: "sensor.power", quote: "" }, "sensor.power 21T22:17:05"],
  ["its past, where no chart has it", { ref: "light.garden", quote: "on at 2026-11-10 08:00:00+01:00" }, "past of light.garden 10T07:00:00"],
  ["nothing, when nothing is known of it", { ref: "light.attic" }, "nothing"],
  ["the line that is quoted", { ref: "shelly", quote: "WARNING of shelly ×5" }, "line 7: WARNING of shelly ×5"],
  ["the beginning of what is quoted more freely", { ref: "shelly", quote: "WARNING of shelly, five times in all" }, "line 7: WARNING of shelly"],
])("a source leads to %s", (_, c, want) => {
  expect(short(targetOf({ source: "home assistant", ...c }, evidence))).toBe(want);
});

test("a point leads to its line in the log, and a text to the step that holds it", () => {
  expect(short(lineAbout({ entity: "sensor.volts", at: at("21T22:17:05") }, chart, evidence))).toBe("line 9: 2026-11-21 23:17:05");
  expect(short(lineAbout({ entity: "sensor.power", at: at("21T22:17:05") }, chart, { ...evidence, said: [] }))).toBe("nothing");
  expect(short(quoted("undervoltage on phase A", evidence))).toBe("line 7: undervoltage on phase A");
});
