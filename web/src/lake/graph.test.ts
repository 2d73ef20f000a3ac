// The drawing of a lake's links, without a canvas.

import { describe, expect, test } from "vitest";

import type { EntityGraph } from "../api/lakes.ts";
import { drawingOf, fit, settle, simulate, spotAt, zoomed, type Spot } from "./graph.ts";
import { mostNames } from "./paint.ts";

const node = (path: string, kind = "note") => ({ path, title: path.toUpperCase(), kind });
const edge = (from: string, to: string, n = 1) => ({ from, to, n });

/** a - b - c - d in a row, e alone. */
const row: EntityGraph = { nodes: [node("a", "role"), node("b"), node("c"), node("d"), node("e", "doc")], edges: [edge("a", "b", 3), edge("b", "a"), edge("b", "c"), edge("c", "d"), edge("d", "d"), edge("d", "gone")], broken: 1 };

const paths = (spots: readonly Spot[]) => spots.map((s) => s.path);

test("a small drawing has few names, more when it is made larger, and a large one as many as fit", () => {
  expect([mostNames(352, 440, 0.7), mostNames(352, 440, 2), mostNames(1000, 800, 1), mostNames(2000, 1200, 1)]).toEqual([9, 34, 44, 60]);
});

describe("the drawing", () => {
  test("has each entity and each pair that is linked, once", () => {
    const d = drawingOf(row);
    expect(paths(d.spots)).toEqual(["a", "b", "c", "d", "e"]);
    expect(d.lines.map((l) => `${l.source.path}-${l.target.path}`), "both directions are one line; a link to itself or to what is not there is none").toEqual(["a-b", "b-c", "c-d"]);
    expect([...(d.near.get("b") ?? [])].sort()).toEqual(["a", "c"]);
    expect(d.spots.map((s) => s.links)).toEqual([1, 2, 2, 1, 0]);
    expect(d.kinds, "the most frequent first").toEqual(["note", "doc", "role"]);
  });

  test("of a focus has what so many links lead to, in either direction", () => {
    expect(paths(drawingOf(row, { path: "d", depth: 1 }).spots)).toEqual(["c", "d"]);
    expect(paths(drawingOf(row, { path: "d", depth: 2 }).spots)).toEqual(["b", "c", "d"]);
    expect(paths(drawingOf(row, { path: "e", depth: 3 }).spots)).toEqual(["e"]);
    expect(paths(drawingOf(row, { path: "not in it", depth: 1 }).spots), "what is not in the graph is no focus").toHaveLength(5);
    const d = drawingOf(row, { path: "d", depth: 1 });
    expect(d.lines.map((l) => `${l.source.path}-${l.target.path}`)).toEqual(["c-d"]);
  });

  test("of nothing is nothing", () => {
    const d = drawingOf({ nodes: null, edges: null, broken: 0 } as unknown as EntityGraph);
    expect([d.spots, d.lines, d.kinds]).toEqual([[], [], []]);
    expect(settle(simulate(d), 1000)).toBe(false);
  });

  test("is the same each time, and every place is a number", () => {
    const big: EntityGraph = { nodes: Array.from({ length: 60 }, (_, i) => node(`n${i}`)), edges: Array.from({ length: 90 }, (_, i) => edge(`n${i % 60}`, `n${(i * 7 + 3) % 60}`)), broken: 0 };
    const once = drawingOf(big);
    const again = drawingOf(big);
    // The clock stands still, so that the layout comes to its rest however slow the machine is.
    expect([settle(simulate(once), 1, () => 0), settle(simulate(again), 1, () => 0)]).toEqual([false, false]);
    expect(once.spots.map((s) => [s.x, s.y])).toEqual(again.spots.map((s) => [s.x, s.y]));
    expect(once.spots.every((s) => Number.isFinite(s.x) && Number.isFinite(s.y))).toBe(true);
    for (const s of once.spots) for (const t of once.spots) if (s !== t) expect(Math.hypot(s.x - t.x, s.y - t.y), `${s.path} and ${t.path} do not lie over each other`).toBeGreaterThan(Math.max(s.r, t.r));
  });

  test("takes no longer than it may", () => {
    const sim = simulate(drawingOf(row));
    let now = 0;
    expect(settle(sim, 10, () => now++), "it is not at rest yet").toBe(true);
    expect(now).toBeLessThanOrEqual(12);
  });
});

const spot = (x: number, y: number, r = 5, path = `${x},${y}`): Spot => ({ path, title: path, kind: "note", links: 1, r, x, y });

describe("the view", () => {
  const shown = (s: Spot, v: { x: number; y: number; k: number }) => ({ left: v.x + (s.x - s.r) * v.k, right: v.x + (s.x + s.r) * v.k, top: v.y + (s.y - s.r) * v.k, bottom: v.y + (s.y + s.r) * v.k });

  test.each([
    [390, 300],
    [1024, 700],
    [160, 900],
  ])("of all of it has everything on a canvas of %d by %d", (width, height) => {
    const spots = [spot(-900, 200), spot(300, -1200), spot(40, 800), spot(0, 0)];
    const v = fit(spots, width, height);
    for (const s of spots) {
      const at = shown(s, v);
      expect([at.left >= 0, at.right <= width, at.top >= 0, at.bottom <= height]).toEqual([true, true, true, true]);
    }
  });

  test("of a single entity is not larger than life twice over, and of none it is the middle", () => {
    const v = fit([spot(500, 500)], 400, 400);
    expect(v.k).toBe(2);
    expect(fit([], 400, 300)).toEqual({ x: 200, y: 150, k: 1 });
    expect(fit([spot(1, 1)], 0, 0)).toEqual({ x: 0, y: 0, k: 1 });
  });

  test("grows around the point that is pointed at, within limits", () => {
    const v = { x: 10, y: 20, k: 1 };
    const z = zoomed(v, 2, 100, 50);
    expect(z.k).toBe(2);
    expect([(100 - z.x) / z.k, (50 - z.y) / z.k], "the point stays where it is").toEqual([(100 - v.x) / v.k, (50 - v.y) / v.k]);
    expect(zoomed(v, 1e9, 0, 0).k).toBe(6);
    expect(zoomed(v, 1e-9, 0, 0).k).toBe(0.05);
  });

  test("knows the entity at a point: the nearest, with room for a finger", () => {
    const spots = [spot(0, 0, 5, "a"), spot(14, 0, 5, "b")];
    const v = { x: 100, y: 100, k: 1 };
    expect(spotAt(spots, v, 100, 100)?.path).toBe("a");
    expect(spotAt(spots, v, 108, 100)?.path).toBe("b");
    expect(spotAt(spots, v, 100, 110)?.path).toBe("a");
    expect(spotAt(spots, v, 100, 140)).toBeUndefined();
    expect(spotAt(spots, { x: 100, y: 100, k: 2 }, 128, 100)?.path, "in a larger view it is elsewhere").toBe("b");
  });
});
