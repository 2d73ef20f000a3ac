import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import { createClient } from "../../api/client.ts";
import { Slots } from "../../api/slots.ts";
import { changed, Entities, found, listed, noHouse, type Listing } from "./entities.ts";

const listing: Listing = {
  connected: true,
  age_ms: 1000,
  areas: [
    { id: "b", name: "Bedroom", entities: [{ entity_id: "light.a", name: "Lamp", domain: "light", state: "off", available: true }, { entity_id: "sensor.t", name: "Temperature", domain: "sensor", device_class: "temperature", unit: "°C", state: "20", available: true }] },
    { id: "", name: "", entities: null },
  ],
};

describe("the house", () => {
  test("is as the list has it, and as fresh", () => {
    const h = listed(noHouse, listing, 10_000);
    expect(h).toMatchObject({ phase: "ready", connected: true, freshAt: 9000 });
    expect(h.areas.map((a) => [a.name, a.entities])).toEqual([["Bedroom", ["light.a", "sensor.t"]], ["", []]]);
  });

  test("changes only what changed", () => {
    const h = listed(noHouse, listing, 0);
    const next = changed(h, [{ entity_id: "light.a", state: "on", last_changed: "2026-03-01T10:00:00Z", available: true }, { entity_id: "light.unknown", state: "on" }], 0);
    expect(next.entities.get("light.a")).toMatchObject({ state: "on", name: "Lamp", last_changed: "2026-03-01T10:00:00Z" });
    expect(next.entities.get("sensor.t")).toBe(h.entities.get("sensor.t"));
    expect(h.entities.get("light.a")?.state).toBe("off");
    expect(next.entities.has("light.unknown")).toBe(false);
    expect(changed(h, [{ connected: false, age_ms: 60_000 }], 100_000)).toMatchObject({ connected: false, freshAt: 40_000, entities: h.entities });
  });

  test("histories grow with new values, and never backwards", () => {
    const h = { ...listed(noHouse, listing, 0), histories: new Map([["sensor.t", { points: [[1000, 20]] as [number, number][], states: [] }]]) };
    const points = (state: string, at: number) => changed(h, [{ entity_id: "sensor.t", state, last_changed: new Date(at).toISOString() }], 0).histories.get("sensor.t")?.points;
    expect(points("21", 2000)).toEqual([[1000, 20], [2000, 21]]);
    expect(points("21", 500)).toEqual([[1000, 20]]);
    expect(points("unavailable", 2000)).toEqual([[1000, 20]]);
    expect(points("", 2000)).toEqual([[1000, 20]]);
  });

  test("is searched by name, area, class and id", () => {
    const h = listed(noHouse, listing, 0);
    const ids = (text: string) => found(h, text).flatMap((g) => g.entities.map((e) => e.entity_id));
    expect(ids("")).toEqual(["light.a", "sensor.t"]);
    expect(ids("bedroom lamp")).toEqual(["light.a"]);
    expect(ids("TEMP")).toEqual(["sensor.t"]);
    expect(ids("light.")).toEqual(["light.a"]);
    expect(ids("kitchen")).toEqual([]);
  });
});

describe("Entities", () => {
  let asked: string[];
  let answer: (path: string) => Response;
  let streams: ReadableStreamDefaultController<Uint8Array>[];
  let entities: Entities;
  let slots: Slots;
  const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  const state = () => entities.store.getState();
  const settle = () => vi.advanceTimersByTimeAsync(0);

  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    streams = [];
    answer = (path) => {
      if (path.endsWith("/stream")) return new Response(new ReadableStream({ start: (s) => void streams.push(s) }), { headers: { "Content-Type": "text/event-stream" } });
      if (path.includes("/history")) return json({ points: [[1, 2]] });
      return json(listing);
    };
    slots = new Slots();
    const client = createClient(
      "http://h/",
      async (input) => {
        asked.push(input.replace("http://h/apps/home/", ""));
        return answer(input);
      },
      undefined,
      slots,
    );
    entities = new Entities(client);
  });
  afterEach(() => {
    entities.close();
    vi.useRealTimers();
  });

  test("lists, follows, and after a cut does both again", async () => {
    entities.start();
    await settle();
    streams[0]?.enqueue(new TextEncoder().encode('data: {"entity_id":"light.a","state":"on","available":true}\n\n'));
    await settle();
    expect(state().entities.get("light.a")?.state).toBe("on");
    streams[0]?.error(new TypeError("network error"));
    await settle();
    expect(state()).toMatchObject({ phase: "ready", connected: false });
    await vi.advanceTimersByTimeAsync(2000);
    expect(asked).toEqual(["entities", "entities/stream", "entities", "entities/stream"]);
    expect(state()).toMatchObject({ connected: true, error: undefined });
  });

  test("while another tab follows, the list is read again and again; then this one follows", async () => {
    const release = slots.take("house", () => undefined);
    answer = (path) => (path.includes("/history") ? json({ states: [[1, "off"]] }) : json(listing));
    entities.wantHistory("light.a");
    entities.start();
    await settle();
    const lamp = { ...listing.areas?.[0]?.entities?.[0], state: "on", last_changed: "2026-03-01T10:00:00Z" };
    answer = () => json({ ...listing, areas: [{ id: "b", name: "Bedroom", entities: [lamp] }] });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toEqual(["entities/light.a/history?hours=24", "entities", "entities", "entities"]);
    expect(state()).toMatchObject({ connected: true, error: undefined });
    expect(state().entities.get("light.a")?.state).toBe("on");
    expect(state().histories.get("light.a")?.states, "each state once").toEqual([[1, "off"], [Date.parse("2026-03-01T10:00:00Z"), "on"]]);
    release?.();
    const list = answer;
    answer = (path) => (path.endsWith("/stream") ? new Response(new ReadableStream({ start: (s) => void streams.push(s) }), { headers: { "Content-Type": "text/event-stream" } }) : list(path));
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked.slice(4)).toEqual(["entities", "entities/stream"]);
    entities.close();
    await settle();
    expect(slots.take("house", () => undefined), "closed, the slot is free").toBeDefined();
  });

  test("says what is wrong when there is no list, and retries at growing intervals", async () => {
    answer = () => json({ error: { code: "unavailable", message: "the house is away" } }, 503);
    entities.start();
    await settle();
    expect(state()).toMatchObject({ phase: "failed", error: { message: "the house is away", status: 503 } });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked.length).toBeLessThan(7);
    entities.close();
    const before = asked.length;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(asked.length).toBe(before);
  });

  test("an HTML page instead of the list is an error", async () => {
    answer = () => new Response("<html>", { headers: { "Content-Type": "text/html" } });
    entities.start();
    await settle();
    expect(state()).toMatchObject({ phase: "failed", error: { code: "not_found", status: 404 } });
  });

  test("a history is asked for once, and few at a time", async () => {
    for (const id of ["a.a", "a.b", "a.c", "a.d", "a.a"]) entities.wantHistory(id);
    expect(asked).toHaveLength(3);
    await settle();
    expect(asked.map((a) => a.split("/")[1])).toEqual(["a.a", "a.b", "a.c", "a.d"]);
    expect(state().histories.get("a.a")).toEqual({ points: [[1, 2]], states: [] });
  });

  test("a history that could not be had may be asked for again", async () => {
    answer = () => json({}, 503);
    entities.wantHistory("a.a");
    await settle();
    entities.wantHistory("a.a");
    await settle();
    expect(asked).toHaveLength(2);
  });

  test("for names alone the list is read once, and nothing is followed", async () => {
    await entities.peek();
    await entities.peek();
    expect(asked).toEqual(["entities"]);
    expect(state().phase).toBe("ready");
  });
});
