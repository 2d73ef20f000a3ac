// States and histories in readable form.

import { ago } from "../../ui/text.ts";
import type { Entity, History } from "./entities.ts";

const words: Record<string, readonly [on: string, off: string]> = {
  door: ["Open", "Closed"],
  garage_door: ["Open", "Closed"],
  window: ["Open", "Closed"],
  opening: ["Open", "Closed"],
  motion: ["Motion", "Still"],
  occupancy: ["Occupied", "Free"],
  presence: ["Home", "Away"],
  moisture: ["Wet", "Dry"],
  smoke: ["Smoke", "Clear"],
  gas: ["Gas", "Clear"],
  problem: ["Problem", "Fine"],
  connectivity: ["Connected", "Disconnected"],
  battery: ["Low", "Fine"],
  battery_charging: ["Charging", "Not charging"],
  lock: ["Unlocked", "Locked"],
  plug: ["Plugged in", "Unplugged"],
  power: ["Power", "No power"],
  running: ["Running", "Stopped"],
  update: ["Update", "Up to date"],
};

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

export function stateOf(e: Entity, now: number): string {
  if (!e.available) return "Unavailable";
  const value = Number(e.state);
  if (e.state.trim() !== "" && !Number.isNaN(value)) return number.format(value) + (e.unit ? (e.unit === "%" || e.unit === "°" ? e.unit : ` ${e.unit}`) : "");
  if (e.device_class === "timestamp" || /^\d{4}-\d\d-\d\dT/.test(e.state)) return ago(e.state, now) || e.state;
  return stateText(e.state, e.domain, e.device_class);
}

/** A state that is not a number, in words. */
export function stateText(state: string, domain: string, deviceClass = ""): string {
  if (state === "unknown" || state === "") return "Unknown";
  if (state === "not_home") return "Away";
  const pair = domain === "binary_sensor" ? words[deviceClass] : undefined;
  if (pair && state === "on") return pair[0];
  if (pair && state === "off") return pair[1];
  const text = state.replaceAll("_", " ");
  return (text[0]?.toUpperCase() ?? "") + text.slice(1);
}

/** A name without that of its area, which is shown above it, and without a word said twice: "Motion" of "Bedroom Motion Motion". */
export function nameIn(area: string, e: Entity): string {
  const name = (e.name || e.entity_id).replace(/(?<!\S)(\S+)(?: \1)+(?!\S)/gi, "$1");
  const rest = area !== "" && name.toLowerCase().startsWith(`${area.toLowerCase()} `) ? name.slice(area.length + 1).trim() : "";
  return rest === "" ? name : (rest[0]?.toUpperCase() ?? "") + rest.slice(1);
}

/** How a state is marked: something is on, something is wrong, or neither. */
export function toneOf(e: Entity): "on" | "bad" | "off" {
  if (!e.available || e.state === "unavailable") return "bad";
  if (["problem", "smoke", "gas", "moisture"].includes(e.device_class ?? "") && e.state === "on") return "bad";
  return ["on", "open", "home", "playing", "heat", "cool", "cleaning", "unlocked", "opening", "recording"].includes(e.state) ? "on" : "off";
}

/** At most n points with the same shape: the lowest and the highest of each stretch. */
export function thinned(points: History["points"], n: number): [number, number][] {
  const first = points[0];
  const last = points.at(-1);
  if (!first || !last) return [];
  if (points.length <= n) return points.map(([t, v]) => [t, v]);
  const buckets = Math.max(1, Math.floor(n / 2));
  const width = (last[0] - first[0]) / buckets || 1;
  const out: [number, number][] = [];
  let i = 0;
  for (let b = 0; b < buckets; b++) {
    const end = b === buckets - 1 ? Infinity : first[0] + (b + 1) * width;
    let low: readonly [number, number] | undefined;
    let high: readonly [number, number] | undefined;
    for (let p = points[i]; p && p[0] < end; p = points[++i]) {
      if (!low || p[1] < low[1]) low = p;
      if (!high || p[1] >= high[1]) high = p;
    }
    if (!low || !high) continue;
    const pair = low[0] <= high[0] ? [low, high] : [high, low];
    for (const p of low === high ? [low] : pair) if (p) out.push([p[0], p[1]]);
  }
  return out;
}

/** A line through points, in a box of this size; "" if there is nothing to draw. */
export function lineThrough(points: History["points"], width: number, height: number, from: number, to: number): string {
  const shown = thinned(points, 120);
  if (shown.length === 0 || to <= from) return "";
  const { low, high } = rangeOf(points);
  const x = (t: number) => (Math.min(1, Math.max(0, (t - from) / (to - from))) * width).toFixed(1);
  const y = (v: number) => (high === low ? height / 2 : height - 1 - ((v - low) / (high - low)) * (height - 2)).toFixed(1);
  const path = shown.map(([t, v], i) => `${i === 0 ? "M" : "L"}${x(t)} ${y(v)}`).join("");
  const last = shown.at(-1);
  return last ? `${path}L${x(to)} ${y(last[1])}` : path; // the last value holds until the end
}

export function rangeOf(points: History["points"]): { low: number; high: number } {
  let low = Infinity;
  let high = -Infinity;
  for (const [, v] of points) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return { low, high };
}

/** The times when a state held, as shares of the range. */
export function spansOf(states: History["states"], from: number, to: number): { left: number; width: number; state: string }[] {
  const out: { left: number; width: number; state: string }[] = [];
  states.forEach(([at, state], i) => {
    const start = Math.max(at, from);
    const end = Math.min(states[i + 1]?.[0] ?? to, to);
    if (end > start) out.push({ left: (start - from) / (to - from), width: (end - start) / (to - from), state });
  });
  return out;
}

const quiet = new Set(["off", "closed", "idle", "unavailable", "unknown", "not_home", "standby", "paused", "docked", "locked", ""]);

export const isQuiet = (state: string): boolean => quiet.has(state);

export const amount = (v: number): string => number.format(v);
