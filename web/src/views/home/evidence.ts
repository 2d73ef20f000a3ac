// The sources of the figures in an answer: points of a chart, or lines of the log. A figure
// leads there only if a tool's result contains it; anything else is not a link.

import type { Citation } from "../../api/types.gen.ts";
import { boundsOf, clockIn, indexAt, isNumber, stampIn, stopsOf, type Chart, type Series } from "./chart.ts";

export type Target =
  | { kind: "point"; plot: string; entity: string; at: number }
  | { kind: "line"; turn: string; seq: number; text: string; about?: string }
  | { kind: "past"; entity: string; at: number };

/** A part of a text, and its target. */
export interface Lead {
  from: number;
  to: number;
  target: Target;
}

/** A tool's text: a step of the log. */
export interface Said {
  turn: string;
  seq: number;
  text: string;
}

export interface Evidence {
  /** The loaded charts, those of the same turn first. */
  charts: readonly { plot: string; chart: Chart }[];
  said: readonly Said[];
}

const units = ["kWh", "Wh", "kW", "MW", "W", "VA", "mV", "V", "mA", "A", "Hz", "°C", "°F", "K", "%", "lx", "ppm", "ppb", "hPa", "mbar", "bar", "dBm", "dB", "lqi", "mm", "cm", "km/h", "m/s", "m³", "L", "km", "µg/m³", "°"];
const number = String.raw`[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-−]?\d+(?:\.\d+)?`;
const escaped = (s: string) => s.replace(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);
const figure = new RegExp(String.raw`(?<![\w.:,-])(${number})\s?(${units.map(escaped).join("|")})(?![\w/])`, "g");
const stamp = /(?<![\d-])(?:(\d{4}-\d\d-\d\d)[ T])?([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(Z|[+-]\d\d:\d\d)?(?![\d:])/g;
const counted = /(?<![\w.:,-])\d+ [a-z]+\b(?! of\b)/g;
const idOf = /\b[a-z][a-z_]*\.[a-z0-9_]+\b/g;
/** Words for a whole time range, whose figures are not the value at a moment. */
const whole = /\b(?:mean|average|median|typical|usual|total|sum|altogether|normal)(?:ly)?\b/i;

interface Token {
  from: number;
  to: number;
  text: string;
  value?: { v: number; digits: number; unit: string };
  time?: { date: string; clock: string };
}

/** Every figure and every time in a text. */
function tokensOf(text: string): Token[] {
  const out: Token[] = [];
  for (const m of text.matchAll(stamp)) {
    const [all, date = "", h = "", min = "", s] = m;
    out.push({ from: m.index, to: m.index + all.length, text: all, time: { date, clock: `${h.padStart(2, "0")}:${min}${s ? `:${s}` : ""}` } });
  }
  for (const m of text.matchAll(figure)) {
    const digits = (m[1] ?? "").replaceAll(",", "").replace("−", "-");
    const value = { v: Number(digits), digits: digits.split(".")[1]?.length ?? 0, unit: m[2] ?? "" };
    out.push({ from: m.index, to: m.index + m[0].length, text: m[0], value });
  }
  for (const m of text.matchAll(counted)) {
    const [from, to] = [m.index, m.index + m[0].length];
    if (!out.some((t) => t.from < to && from < t.to)) out.push({ from, to, text: m[0] });
  }
  return out.sort((a, b) => a.from - b.from);
}

interface Mention {
  from: number;
  to: number;
  id: string;
}

/** The entities that a text mentions, by id or name. */
function mentionsIn(text: string, ev: Evidence): Mention[] {
  const out: Mention[] = [];
  for (const m of text.matchAll(idOf)) out.push({ from: m.index, to: m.index + m[0].length, id: m[0] });
  const lower = text.toLowerCase();
  for (const { chart } of ev.charts) {
    for (const s of chart.series) {
      const name = s.name.toLowerCase();
      for (let i = name.length > 2 ? lower.indexOf(name) : -1; i >= 0; i = lower.indexOf(name, i + 1)) out.push({ from: i, to: i + name.length, id: s.entity_id });
    }
  }
  return out.sort((a, b) => a.from - b.from);
}

/** The distance of a token from a mention of an entity; a mention before the token counts as closer. */
function distance(t: Token, id: string, mentions: readonly Mention[]): number {
  let best = Infinity;
  for (const m of mentions) {
    if (m.id !== id) continue;
    best = Math.min(best, m.to <= t.from ? t.from - m.to : 2 * (m.from - t.to) + 200);
  }
  return best;
}

const rounded = (v: number, digits: number): string => v.toFixed(digits);

/** The moments of a series by the house's clock: "22:34" and "22:34:10". */
const clocks = new WeakMap<Series, Map<string, number[]>>();

function momentsOf(s: Series, zone: string): Map<string, number[]> {
  let all = clocks.get(s);
  if (all) return all;
  clocks.set(s, (all = new Map<string, number[]>()));
  for (const [at] of isNumber(s) ? s.points : s.states) {
    const exact = clockIn(zone, at, true);
    for (const key of [exact, exact.slice(0, 5)]) {
      const list = all.get(key);
      if (list) list.push(at);
      else all.set(key, [at]);
    }
  }
  return all;
}

interface Candidate {
  target: Target;
  score: number;
}

const near = 60;

/** The point of a value in the charts: at a moment that the text names, at a mark, or at an extreme. */
function pointOf(t: Token, tokens: readonly Token[], mentions: readonly Mention[], text: string, ev: Evidence): Candidate | undefined {
  const value = t.value;
  if (!value) return undefined;
  const around = text.slice(Math.max(0, t.from - 14), t.from);
  if (whole.test(around)) return undefined;
  const times = tokens.filter((o) => o.time && Math.min(Math.abs(o.to - t.from), Math.abs(t.to - o.from)) < near);
  let best: Candidate | undefined;
  for (const { plot, chart } of ev.charts) {
    for (const s of chart.series) {
      if (!isNumber(s) || s.unit !== value.unit) continue;
      const marks = new Set(s.marks.map((m) => m.at));
      const bounds = boundsOf(s);
      const named = distance(t, s.entity_id, mentions);
      for (const [at, v] of s.points) {
        if (v === null || rounded(v, value.digits) !== rounded(value.v, value.digits)) continue;
        const said = times.reduce((d, o) => (fits(o, at, chart.zone) ? Math.min(d, Math.abs(o.from - t.from)) : d), Infinity);
        const extreme = v === bounds?.low || v === bounds?.high;
        if (said === Infinity && !marks.has(at) && !extreme) continue;
        const score = (said < Infinity ? 1000 - said : 0) + (marks.has(at) ? 200 : 0) + (extreme ? 50 : 0) + (named < Infinity ? 400 - Math.min(300, named) : 0);
        if (!best || score > best.score) best = { score, target: { kind: "point", plot, entity: s.entity_id, at } };
      }
    }
  }
  return best;
}

function fits(t: Token, at: number, zone: string): boolean {
  return t.time !== undefined && (t.time.date === "" || stampIn(zone, at).startsWith(t.time.date)) && clockIn(zone, at, true).startsWith(t.time.clock);
}

/** The point of a moment in the charts. */
function momentOf(t: Token, mentions: readonly Mention[], ev: Evidence): Candidate | undefined {
  if (!t.time) return undefined;
  let best: Candidate | undefined;
  for (const { plot, chart } of ev.charts) {
    for (const s of chart.series) {
      const named = distance(t, s.entity_id, mentions);
      const stops = new Set(stopsOf(s).map((m) => m.at));
      for (const at of momentsOf(s, chart.zone).get(t.time.clock) ?? []) {
        const stop = stops.has(at);
        // A number has a value at every minute; for states only the changes count.
        if (!fits(t, at, chart.zone) || (isNumber(s) && !stop && named === Infinity)) continue;
        const score = (stop ? 300 : 0) + (isNumber(s) ? 0 : 100) + (named < Infinity ? 400 - Math.min(300, named) : 0);
        if (!best || score > best.score) best = { score, target: { kind: "point", plot, entity: s.entity_id, at } };
      }
    }
  }
  return best;
}

/**
 * The line of the log with a figure, as the tools wrote it: the same number with the same unit,
 * closest to the entity.
 */
function lineOf(t: Token, mentions: readonly Mention[], ev: Evidence): Target | undefined {
  const about = [...mentions].sort((a, b) => distance(t, a.id, mentions) - distance(t, b.id, mentions))[0]?.id;
  let found: { score: number; target: Target } | undefined;
  for (const said of ev.said) {
    const start = about ? said.text.indexOf(about) : -1;
    for (const m of matchesIn(t, said.text)) {
      const score = start >= 0 ? (m.at >= start ? 2 : 1) : 0;
      if (!found || score > found.score) found = { score, target: { kind: "line", turn: said.turn, seq: said.seq, text: m.text, ...(about && { about }) } };
    }
  }
  return found?.target;
}

function* matchesIn(t: Token, said: string): Generator<{ at: number; text: string }> {
  if (t.value) {
    const { v, digits, unit } = t.value;
    for (const m of said.matchAll(new RegExp(String.raw`(?<![\w.:,-])(${number})(?:\s?(${escaped(unit)}))?(?![\w.])`, "g"))) {
      const there = Number((m[1] ?? "").replaceAll(",", "").replace("−", "-"));
      const exact = (m[1]?.split(".")[1]?.length ?? 0) > 2; // a mean, whose unit is elsewhere
      if (Number.isFinite(there) && (m[2] || exact) && rounded(there, digits) === rounded(v, digits)) yield { at: m.index, text: m[0] };
    }
    return;
  }
  const text = t.time ? `${t.time.date && `${t.time.date} `}${t.time.clock}` : t.text;
  for (const words of t.time && t.time.date ? [text, text.replace(" ", "T")] : [text]) {
    const at = said.indexOf(words);
    if (at >= 0) yield { at, text: words };
  }
}

/** The leads in a text. */
export function leadsIn(text: string, ev: Evidence): Lead[] {
  const mentions = mentionsIn(text, ev);
  const tokens = tokensOf(text);
  const values = new Map(tokens.map((t) => [t, pointOf(t, tokens, mentions, text, ev)?.target]));
  const out: Lead[] = [];
  for (const t of tokens) {
    let target = values.get(t);
    if (t.time) {
      // A time next to a value is the time of that value.
      for (const [o, at] of values) {
        const zone = at?.kind === "point" ? ev.charts.find((c) => c.plot === at.plot)?.chart.zone : undefined;
        if (at?.kind === "point" && zone && Math.min(Math.abs(o.from - t.to), Math.abs(t.from - o.to)) < near / 2 && fits(t, at.at, zone)) target = at;
      }
      target ??= momentOf(t, mentions, ev)?.target;
    }
    target ??= lineOf(t, mentions, ev) ?? pastOf(t, mentions, ev);
    if (target) out.push({ from: t.from, to: t.to, target });
  }
  for (const m of mentions) {
    if (out.some((l) => l.from < m.to && m.from < l.to)) continue;
    const target = seriesOf(m.id, ev);
    if (target) out.push({ from: m.from, to: m.to, target });
  }
  return out.sort((a, b) => a.from - b.from);
}

/** A dated moment of an entity without a chart, whose history can be requested. */
function pastOf(t: Token, mentions: readonly Mention[], ev: Evidence): Target | undefined {
  if (!t.time?.date) return undefined;
  const entity = [...mentions].sort((a, b) => distance(t, a.id, mentions) - distance(t, b.id, mentions))[0]?.id;
  const at = readStamp(t, ev.charts[0]?.chart.zone ?? "UTC");
  return entity && at !== undefined ? { kind: "past", entity, at } : undefined;
}

/** A dated time in ms; without an offset it is in the house's zone. */
function readStamp(t: Token, zone: string): number | undefined {
  const offset = /Z$|[+-]\d\d:\d\d$/.exec(t.text)?.[0];
  const plain = Date.parse(`${t.time?.date}T${t.time?.clock.padEnd(8, ":00")}${offset ?? "Z"}`);
  if (Number.isNaN(plain)) return undefined;
  if (offset) return plain;
  // The house's clock at this moment in UTC shows the offset.
  return plain - (Date.parse(`${stampIn(zone, plain).replace(" ", "T")}Z`) - plain);
}

/** An entity's point in a chart: at the first mark, or at its end. */
function seriesOf(id: string, ev: Evidence): Target | undefined {
  for (const { plot, chart } of ev.charts) {
    const s = chart.series.find((x) => x.entity_id === id);
    if (!s) continue;
    const at = stopsOf(s)[0]?.at ?? (isNumber(s) ? s.points : s.states).at(-1)?.[0];
    if (at !== undefined) return { kind: "point", plot, entity: id, at };
  }
  return undefined;
}

const entityID = /^[a-z][a-z_]*\.[a-z0-9_]+$/;

/** A citation's target: the entity's point in a chart, a moment of its history, or the quoted line. */
export function targetOf(c: Citation, ev: Evidence): Target | undefined {
  const quote = c.quote ?? "";
  if (entityID.test(c.ref)) {
    const leads = leadsIn(`${c.ref} ${quote}`, ev).map((l) => l.target);
    const own = leads.find((t) => t.kind === "point" && t.entity === c.ref) ?? seriesOf(c.ref, ev);
    if (own) return own;
    const moment = tokensOf(quote).find((t) => t.time?.date);
    const at = moment && readStamp(moment, ev.charts[0]?.chart.zone ?? "UTC");
    if (at !== undefined) return { kind: "past", entity: c.ref, at };
    return undefined;
  }
  return quoted(quote, ev) ?? quoted(c.ref, ev);
}

/** The step that contains a text, or its longest beginning. */
export function quoted(text: string, ev: Evidence): Target | undefined {
  for (let words = text.trim(); words.length >= 3; words = words.slice(0, Math.floor(words.length * 0.7)).trim()) {
    const said = ev.said.find((s) => s.text.includes(words));
    if (said) return { kind: "line", turn: said.turn, seq: said.seq, text: words };
  }
  return undefined;
}

/** The line of the log about a point of a chart. */
export function lineAbout(point: { entity: string; at: number }, chart: Chart, ev: Evidence): Target | undefined {
  const s = chart.series.find((x) => x.entity_id === point.entity);
  const v = s && isNumber(s) ? s.points[indexAt(s.points, point.at)]?.[1] : undefined;
  const clock = clockIn(chart.zone, point.at, true);
  const about = { from: 0, to: 0, id: point.entity };
  const time = lineOf({ from: 1, to: 1, text: clock, time: { date: stampIn(chart.zone, point.at).slice(0, 10), clock } }, [about], ev);
  if (time) return time;
  if (v === undefined || v === null || !s) return undefined;
  const digits = String(v).split(".")[1]?.length ?? 0;
  return lineOf({ from: 1, to: 1, text: "", value: { v, digits, unit: s.unit } }, [about], ev);
}
