// The data of a plot: the values of some entities over a common time range, the values that
// stand out, and the house's time zone.

import type { ArtifactRef, Event } from "../../api/types.gen.ts";
import { artifactsOf } from "../../session/steps.ts";
import { amount, isQuiet, stateText } from "./format.ts";

export const chartType = "application/vnd.parley.chart+json";

export interface Series {
  entity_id: string;
  name: string;
  unit: string;
  device_class: string;
  /** For a number: ms since the epoch, and the value from then on, or null for a gap. */
  points: readonly (readonly [number, number | null])[];
  /** For everything else: ms since the epoch, and the state from then on. */
  states: readonly (readonly [number, string])[];
  /** Values that stand out. */
  marks: readonly { at: number; state: string }[];
  /** Points were left out. */
  thinned: boolean;
}

export interface Chart {
  from: number;
  to: number;
  zone: string;
  series: readonly Series[];
}

/** Parses a chart sent by a server; undefined if it is not one. */
export function readChart(raw: unknown): Chart | undefined {
  const c = raw as Partial<Chart> | null;
  if (!c || typeof c.from !== "number" || typeof c.to !== "number" || !(c.to > c.from) || !Array.isArray(c.series)) return undefined;
  return { from: c.from, to: c.to, zone: known(c.zone), series: c.series.map((s) => readSeries(s as Partial<Series>)) };
}

/** Parses the history of one entity, as the panel's API returns it. */
export function readHistory(raw: unknown): Chart | undefined {
  const h = raw as Partial<Chart & Series> | null;
  return h ? readChart({ ...h, series: [h] }) : undefined;
}

const list = <T>(v: unknown): T[] => (Array.isArray(v) ? (v as T[]) : []);

function readSeries(s: Partial<Series>): Series {
  const id = String(s.entity_id ?? "");
  return {
    entity_id: id,
    name: s.name || id,
    unit: s.unit ?? "",
    device_class: s.device_class ?? "",
    points: list(s.points),
    states: list(s.states),
    marks: list(s.marks),
    thinned: s.thinned === true,
  };
}

/** The zone if this browser knows it; otherwise UTC, which is then shown. */
function known(zone: unknown): string {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: String(zone) }).resolvedOptions().timeZone;
  } catch {
    return "UTC";
  }
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, kind: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${kind}`;
  let f = formats.get(key);
  if (!f) formats.set(key, (f = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options })));
  return f;
}

/** "22:34", or "22:34:10". */
export const clockIn = (zone: string, at: number, seconds = false): string =>
  format(zone, seconds ? "s" : "m", { hour: "2-digit", minute: "2-digit", ...(seconds && { second: "2-digit" }) }).format(at);

/** "Sat 21 Nov". */
export const dayIn = (zone: string, at: number): string => format(zone, "d", { weekday: "short", day: "numeric", month: "short" }).format(at).replace(",", "");

/** "2026-11-21 22:34:10"; a text may contain just its beginning. */
export const stampIn = (zone: string, at: number): string =>
  format(zone, "t", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" })
    .format(at)
    .replace(/(\d+)\/(\d+)\/(\d+), /, "$3-$2-$1 ");

/** "Sat 21 Nov, 22:34:10". */
export const momentIn = (zone: string, at: number): string => `${dayIn(zone, at)}, ${clockIn(zone, at, true)}`;

export function windowText(c: Pick<Chart, "from" | "to" | "zone">): string {
  const same = dayIn(c.zone, c.from) === dayIn(c.zone, c.to);
  return `${dayIn(c.zone, c.from)} ${clockIn(c.zone, c.from)} – ${same ? "" : `${dayIn(c.zone, c.to)} `}${clockIn(c.zone, c.to)}`;
}

export const isNumber = (s: Series): boolean => s.points.length > 0;

/** A value with its unit, spaced as in "20%" and "230 V". */
export const withUnit = (v: number, unit: string): string => amount(v) + (unit === "%" || unit === "°" ? unit : unit && ` ${unit}`);

export const stateWord = (s: Series, state: string): string => stateText(state, s.entity_id.split(".")[0] ?? "", s.device_class);

/** A series' value at a moment, in words; "" before its beginning. */
export function valueAt(s: Series, at: number): string {
  if (isNumber(s)) {
    const p = s.points[indexAt(s.points, at)];
    if (!p) return "";
    return p[1] === null ? "no value" : withUnit(p[1], s.unit);
  }
  const st = s.states[indexAt(s.states, at)];
  return st ? stateWord(s, st[1]) : "";
}

/** The index of the last entry at or before a moment, or -1. */
export function indexAt(all: readonly (readonly [number, unknown])[], at: number): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if ((all[mid]?.[0] ?? Infinity) <= at) low = mid + 1;
    else high = mid;
  }
  return low - 1;
}

export function boundsOf(s: Series): { low: number; high: number } | undefined {
  let low = Infinity;
  let high = -Infinity;
  for (const [, v] of s.points) {
    if (v === null) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  return low <= high ? { low, high } : undefined;
}

/** What a reader wants to know first. */
export function summaryOf(s: Series): string {
  const b = boundsOf(s);
  if (b) return b.low === b.high ? withUnit(b.low, s.unit) : `${amount(b.low)} to ${withUnit(b.high, s.unit)}`;
  if (s.states.length === 0) return "nothing recorded";
  const n = s.states.length - 1;
  return n === 0 ? "no change" : `${n}${s.thinned ? "+" : ""} ${n === 1 ? "change" : "changes"}`;
}

/** The stops of a series: what stands out, or else its extremes; for states, the times when something was wrong. */
export function stopsOf(s: Series): { at: number; text: string }[] {
  if (!isNumber(s)) {
    const gone = s.states.filter(([, state], i) => i > 0 && (state === "unavailable" || state === "unknown"));
    return gone.slice(0, 12).map(([at, state]) => ({ at, text: stateWord(s, state) }));
  }
  return s.marks.map((m) => ({ at: m.at, text: withUnit(Number(m.state), s.unit) }));
}

/** How a state is filled: nothing is on, something is on, or unknown. */
export function toneOfState(state: string): "quiet" | "gone" | "on" {
  if (state === "unavailable" || state === "unknown" || state === "") return "gone";
  return isQuiet(state) ? "quiet" : "on";
}

// The heights of what is drawn, used to reserve its room.
export const heights = { head: 26, number: 116, state: 26, gap: 14, axis: 26, foot: 44, padding: 26 };

export function heightFor(numbers: readonly boolean[]): number {
  const bands = numbers.reduce((sum, n) => sum + heights.head + (n ? heights.number : heights.state) + heights.gap, 0);
  return bands + heights.axis + heights.foot + heights.padding;
}

/** A picture kept by a call, and the values behind it. */
export interface Plot {
  /** The call's id. */
  key: string;
  chart: ArtifactRef;
  image?: ArtifactRef;
  /** For each entity, whether it is a number, as far as the call's result says. */
  numbers: readonly boolean[];
}

/** The plots of a turn, and everything else that its tools kept. */
export function plotsOf(events: readonly Event[]): { plots: Plot[]; rest: ArtifactRef[] } {
  const all = artifactsOf(events);
  const byCall = new Map<string, Plot>();
  for (const e of events) {
    if (e.type !== "artifact.stored" || !e.data?.call || e.data.media_type !== chartType) continue;
    byCall.set(e.data.call, { key: e.data.call, chart: e.data, numbers: [] });
  }
  for (const e of events) {
    if (e.type === "artifact.stored" && e.data?.call && isPicture(e.data)) {
      const plot = byCall.get(e.data.call);
      if (plot) plot.image ??= e.data;
    } else if (e.type === "tool.ended" && e.data) {
      const plot = byCall.get(e.data.call);
      const { entities } = (e.data.data ?? {}) as { entities?: { min?: number }[] };
      if (plot && Array.isArray(entities)) plot.numbers = entities.map((x) => x?.min !== undefined);
    }
  }
  const plots = [...byCall.values()];
  const drawn = new Set(plots.flatMap((p) => [p.chart.id, p.image?.id]));
  return { plots, rest: all.filter((a) => !drawn.has(a.id)) };
}

export const isPicture = (a: ArtifactRef): boolean => /^image\/(png|jpeg|gif|webp|avif|svg\+xml)\b/.test(a.media_type);
