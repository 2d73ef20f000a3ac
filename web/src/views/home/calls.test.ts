import { describe, expect, test } from "vitest";

import type { Event } from "../../api/types.gen.ts";
import { callInWords, namesIn } from "./calls.ts";

const names = new Map([
  ["light.bedroom_ceiling", { name: "Bedroom ceiling" }],
  ["sensor.mains", { name: "Mains voltage" }],
]);

describe("a call in words", () => {
  test.each([
    ["index_search", { limit: 40, query: "bedroom lights" }, "Looks for “bedroom lights”"],
    ["index_search", {}, "Looks for everything"],
    ["ha_state_query", { state: "unavailable" }, "Reads how every unavailable thing is now"],
    ["ha_state_query", { domain: "cover", device_class: "garage", limit: 100 }, "Reads how every garage cover is now"],
    ["ha_state_query", { entities: ["light.bedroom_ceiling"] }, "Reads how Bedroom ceiling is now"],
    ["ha_history", { entities: ["sensor.mains", "light.bedroom_ceiling"], start: "yesterday evening" }, "Reads the history of Mains voltage and Bedroom ceiling, yesterday evening"],
    ["ha_history", { entities: ["a.b", "a.c", "a.d", "a.e"], start: "-12h" }, "Reads the history of a.b, a.c, a.d and 1 more, from -12h"],
    ["ha_logbook", { area: "Kitchen", start: "20:00", end: "22:00" }, "Reads the logbook of Kitchen, 20:00 to 22:00"],
    ["analyze_errors", { since: "last night" }, "Reads the errors, last night"],
    ["ha_call_service", { service: "light.turn_on", target: { entity_id: "light.bedroom_ceiling" } }, "Turn on: Bedroom ceiling"],
    ["ha_call_service", { service: "scene.movie_night" }, "Movie night (scene)"],
    ["AskUserQuestion", { questions: "Which one?" }, "Asks: Which one?"],
    ["read_slack_mock", { query: "voltage" }, "Read slack mock: voltage"],
    ["note_add", { a: 1, b: { c: 2 } }, "Note add"],
    ["toString", undefined, "ToString"],
    ["index_search", null, "Looks for everything"],
  ])("%s %j", (tool, input, want) => expect(callInWords(tool, input, names)).toBe(want));
});

test("a turn's tools name what the panel does not list", () => {
  const events = [
    { type: "tool.ended", data: { data: { entities: [{ entity_id: "sensor.lqi", name: "Bedside LQI", children: [{ entity_id: "sensor.deep", name: "Deep" }] }, { entity_id: 5, name: "x" }] } } },
    { type: "context.retrieved", data: { snippets: [{ ref: "cover.garage_door", text: "closed · Garage door · Garage" }, { ref: "https://x", text: "a · b" }] } },
    { type: "tool.ended", data: null },
  ] as unknown as Event[];
  expect([...namesIn(events)]).toEqual([
    ["sensor.lqi", { name: "Bedside LQI" }],
    ["sensor.deep", { name: "Deep" }],
    ["cover.garage_door", { name: "Garage door" }],
  ]);
});
