// Draws a lake's links on a canvas.

import type { Drawing, Spot, View } from "./graph.ts";

/** The colours of the page's theme. */
export interface Look {
  get(name: string): string;
  font: string;
}

const tints = ["--color-chart-1", "--color-chart-2", "--color-chart-3", "--color-chart-4"] as const;
const shapes = ["circle", "square", "diamond", "triangle"] as const;

/** The sign of a kind: no two of the first sixteen are alike, and those of one colour differ in shape. */
export function tintOf(kind: string, kinds: readonly string[]): { tint: string; shape: (typeof shapes)[number] } {
  const i = Math.max(0, kinds.indexOf(kind));
  return { tint: tints[i % tints.length] ?? tints[0], shape: shapes[Math.floor(i / tints.length) % shapes.length] ?? "circle" };
}

/** Names that are drawn at most; more would lie over each other. A small drawing has few, and more as it is made larger. */
export const mostNames = (width: number, height: number, k: number): number => Math.round(Math.min(60, ((width * height) / 18_000) * Math.max(1, k * k)));

export function paint(on: CanvasRenderingContext2D, d: Drawing, v: View, size: { width: number; height: number }, look: Look, chosen: string | undefined, over: string | undefined): void {
  on.clearRect(0, 0, size.width, size.height);
  const at = over ?? chosen;
  const near = at === undefined ? undefined : d.near.get(at);
  const lit = (path: string) => at === undefined || path === at || near?.has(path) === true;
  const x = (s: Spot) => v.x + s.x * v.k;
  const y = (s: Spot) => v.y + s.y * v.k;

  on.lineWidth = 1;
  for (const strong of [false, true]) {
    on.strokeStyle = look.get(strong ? "--color-text-muted" : "--color-border");
    on.globalAlpha = strong || at === undefined ? 1 : 0.5;
    on.beginPath();
    for (const l of d.lines) {
      if ((at !== undefined && (l.source.path === at || l.target.path === at)) !== strong) continue;
      on.moveTo(x(l.source), y(l.source));
      on.lineTo(x(l.target), y(l.target));
    }
    on.stroke();
  }
  for (const s of d.spots) {
    const [cx, cy, r] = [x(s), y(s), Math.max(1.5, s.r * Math.min(1.5, Math.max(0.6, v.k)))];
    if (cx < -20 || cy < -20 || cx > size.width + 20 || cy > size.height + 20) continue;
    const { tint, shape } = tintOf(s.kind, d.kinds);
    on.globalAlpha = lit(s.path) ? 1 : 0.25;
    on.fillStyle = look.get(tint);
    on.beginPath();
    if (shape === "circle") on.arc(cx, cy, r, 0, 2 * Math.PI);
    else if (shape === "square") on.rect(cx - r * 0.9, cy - r * 0.9, r * 1.8, r * 1.8);
    else if (shape === "diamond") polygon(on, [[cx, cy - r * 1.2], [cx + r * 1.2, cy], [cx, cy + r * 1.2], [cx - r * 1.2, cy]]);
    else polygon(on, [[cx, cy - r * 1.2], [cx + r * 1.15, cy + r * 0.9], [cx - r * 1.15, cy + r * 0.9]]);
    on.fill();
    if (s.path === chosen) {
      on.strokeStyle = look.get("--color-text-primary");
      on.lineWidth = 2;
      on.beginPath();
      on.arc(cx, cy, r + 4, 0, 2 * Math.PI);
      on.stroke();
    }
  }
  names(on, d, v, size, look, at, lit);
  on.globalAlpha = 1;
}

function polygon(on: CanvasRenderingContext2D, points: readonly [number, number][]): void {
  points.forEach(([x, y], i) => (i === 0 ? on.moveTo(x, y) : on.lineTo(x, y)));
  on.closePath();
}

/** Names of the most linked entities, and of those around the one that is looked at, where there is room. */
function names(on: CanvasRenderingContext2D, d: Drawing, v: View, size: { width: number; height: number }, look: Look, at: string | undefined, lit: (path: string) => boolean): void {
  const rank = (s: Spot) => (s.path === at ? 2e6 : at !== undefined && lit(s.path) ? 1e6 : 0) + s.links;
  const taken: { x: number; y: number; w: number }[] = [];
  on.font = `12px ${look.font}`;
  on.textBaseline = "middle";
  const most = mostNames(size.width, size.height, v.k);
  let drawn = 0;
  for (const s of [...d.spots].sort((a, b) => rank(b) - rank(a))) {
    if (drawn >= most) return;
    if (!lit(s.path)) continue;
    const [cx, cy] = [v.x + s.x * v.k + s.r * Math.min(1.5, Math.max(0.6, v.k)) + 4, v.y + s.y * v.k];
    if (cx < -100 || cy < 0 || cx > size.width || cy > size.height) continue;
    const text = s.title.length > 32 ? `${s.title.slice(0, 31)}…` : s.title || s.path;
    const w = on.measureText(text).width;
    if (s.path !== at && taken.some((t) => Math.abs(t.y - cy) < 15 && cx < t.x + t.w && cx + w > t.x)) continue;
    taken.push({ x: cx, y: cy, w });
    drawn++;
    on.globalAlpha = 1;
    on.lineWidth = 3;
    on.strokeStyle = look.get("--color-bg");
    on.strokeText(text, cx, cy);
    on.fillStyle = look.get(s.path === at ? "--color-text-primary" : "--color-text-muted");
    on.fillText(text, cx, cy);
  }
}
