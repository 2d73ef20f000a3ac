// The links of a lake, laid out: entities that are linked attract each other and all repel each other. Pure of the page.

import { forceCenter, forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY, type Simulation, type SimulationLinkDatum, type SimulationNodeDatum } from "d3-force";

import type { EntityGraph } from "../api/lakes.ts";

export interface Spot extends SimulationNodeDatum {
  path: string;
  title: string;
  kind: string;
  /** Links to and from it. */
  links: number;
  r: number;
  x: number;
  y: number;
}

export type Line = SimulationLinkDatum<Spot> & { source: Spot; target: Spot };

export interface Drawing {
  spots: readonly Spot[];
  lines: readonly Line[];
  /** Whom an entity is linked with. */
  near: ReadonlyMap<string, ReadonlySet<string>>;
  /** Kinds by how many entities have them. */
  kinds: readonly string[];
}

/** What is in the drawing: everything, or what can be reached from one entity by so many links. */
export interface Focus {
  path: string;
  depth: number;
}

export function drawingOf(graph: EntityGraph, focus?: Focus): Drawing {
  const near = new Map<string, Set<string>>();
  for (const n of graph.nodes ?? []) near.set(n.path, new Set());
  const edges = (graph.edges ?? []).filter((e) => e.from !== e.to && near.has(e.from) && near.has(e.to));
  for (const e of edges) {
    near.get(e.from)?.add(e.to);
    near.get(e.to)?.add(e.from);
  }
  const kept = focus && near.has(focus.path) ? within(near, focus) : undefined;
  const nodes = (graph.nodes ?? []).filter((n) => kept === undefined || kept.has(n.path));
  const spots = nodes.map((n, i): Spot => {
    const links = near.get(n.path)?.size ?? 0;
    // A spiral is a start without chance, so that a lake looks the same each time.
    const turn = i * 2.4;
    const far = 12 * Math.sqrt(i + 1);
    return { path: n.path, title: n.title, kind: n.kind, links, r: 3 + Math.min(9, Math.sqrt(links) * 1.4), x: far * Math.cos(turn), y: far * Math.sin(turn) };
  });
  const at = new Map(spots.map((s) => [s.path, s]));
  // Entities that link each other have one line: two would pull them together twice as strongly.
  const lines: Line[] = [];
  const drawn = new Set<string>();
  for (const e of edges) {
    const [source, target] = [at.get(e.from), at.get(e.to)];
    const pair = e.from < e.to ? `${e.from}\n${e.to}` : `${e.to}\n${e.from}`;
    if (!source || !target || drawn.has(pair)) continue;
    drawn.add(pair);
    lines.push({ source, target });
  }
  const n = new Map<string, number>();
  for (const s of spots) n.set(s.kind, (n.get(s.kind) ?? 0) + 1);
  return { spots, lines, near, kinds: [...n].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([kind]) => kind) };
}

function within(near: ReadonlyMap<string, ReadonlySet<string>>, { path, depth }: Focus): Set<string> {
  const all = new Set([path]);
  let edge = [path];
  for (let i = 0; i < depth; i++) {
    const next: string[] = [];
    for (const p of edge) {
      for (const q of near.get(p) ?? []) {
        if (all.has(q)) continue;
        all.add(q);
        next.push(q);
      }
    }
    edge = next;
  }
  return all;
}

/** What nothing links to would drift away. */
const inward = (s: Spot): number => (s.links === 0 ? 0.4 : 0.06);

/** A page that links to nearly everything, such as an index, says little about what belongs together. */
const pull = (l: Line): number => Math.min(1, 24 / Math.max(l.source.links, l.target.links)) ** 2 / Math.min(l.source.links, l.target.links, 8);

/** The simulation of a drawing. It stands still until it is told to tick. */
export function simulate(d: Drawing): Simulation<Spot, Line> {
  const many = d.spots.length > 1500;
  return forceSimulation<Spot, Line>([...d.spots])
    .force("links", forceLink<Spot, Line>([...d.lines]).distance((l) => 34 + l.source.r + l.target.r).strength(pull))
    .force("apart", forceManyBody<Spot>().strength(-70).distanceMax(many ? 260 : 600).theta(many ? 1.2 : 0.9))
    .force("room", forceCollide<Spot>((s) => s.r + 3))
    .force("x", forceX<Spot>(0).strength(inward))
    .force("y", forceY<Spot>(0).strength(inward))
    .force("middle", forceCenter<Spot>(0, 0))
    .alphaDecay(many ? 0.05 : 0.028)
    .stop();
}

/** Ticks for so many milliseconds at most; false when it has come to rest. */
export function settle(sim: Simulation<Spot, Line>, budget: number, now: () => number = () => performance.now()): boolean {
  const until = now() + budget;
  while (sim.alpha() > sim.alphaMin()) {
    sim.tick();
    if (now() >= until) break;
  }
  return sim.alpha() > sim.alphaMin();
}

/** Where the drawing is on the canvas. */
export interface View {
  x: number;
  y: number;
  k: number;
}

/** The view that shows all of it. */
export function fit(spots: readonly Spot[], width: number, height: number): View {
  if (spots.length === 0 || width <= 0 || height <= 0) return { x: width / 2, y: height / 2, k: 1 };
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const s of spots) {
    left = Math.min(left, s.x - s.r);
    right = Math.max(right, s.x + s.r);
    top = Math.min(top, s.y - s.r);
    bottom = Math.max(bottom, s.y + s.r);
  }
  const names = Math.min(120, width / 5); // to the right of the last
  const k = Math.min(2, Math.max(0.05, 0.94 * Math.min((width - names) / (right - left), height / (bottom - top))));
  return { x: (width - names) / 2 - (k * (left + right)) / 2, y: height / 2 - (k * (top + bottom)) / 2, k };
}

/** Makes the view larger or smaller around a point of the canvas. */
export function zoomed(v: View, by: number, x: number, y: number): View {
  const k = Math.min(6, Math.max(0.05, v.k * by));
  return { k, x: x - ((x - v.x) * k) / v.k, y: y - ((y - v.y) * k) / v.k };
}

/** The entity at a point of the canvas, with some room for a finger. */
export function spotAt(spots: readonly Spot[], v: View, x: number, y: number, room = 6): Spot | undefined {
  let best: Spot | undefined;
  let least = Infinity;
  for (const s of spots) {
    const d = Math.hypot(v.x + s.x * v.k - x, v.y + s.y * v.k - y) - s.r * v.k;
    if (d < room && d < least) [best, least] = [s, d];
  }
  return best;
}
