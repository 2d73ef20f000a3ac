import { memo, useEffect, useRef } from "react";
import uPlot from "uplot";

import { boundsOf, clockIn, dayIn, heights, indexAt, isNumber, stateWord, toneOfState, type Series } from "./chart.ts";
import { amount } from "./format.ts";

/** The visible time range. */
export interface Span {
  from: number;
  to: number;
}

/** The position of a moment in a series, relative to the upper left corner of the element after its band. */
export interface Drawn {
  x(at: number): number;
  y(at: number): number;
}

/** Margins of the bands: for the axis labels, and so that the last label is not cut off. */
export const left = 56; // "123,456"
export const right = 22;

interface Props {
  series: Series;
  span: Span;
  whole: Span & { zone: string };
  width: number;
  /** It has the time axis below it. */
  last: boolean;
  /** The CSS variable of its colour. */
  color: string;
  /** Colours are read again when this changes. */
  theme: string;
  /** The cursor is shared by all bands of a group. */
  group: string;
  onCursor(at: number | undefined): void;
  onDrawn(d: Drawn): void;
}

/** One series: a number as a stepped line, because a value holds until the next one; states as stretches. */
export const Band = memo(
  function Band(props: Props) {
    const { series: s, span, whole, width, last, color, theme, group } = props;
    const box = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot>(undefined);
    const now = useRef(props);
    now.current = props;
    const height = (isNumber(s) ? heights.number : heights.state) + (last ? heights.axis : 0);

    useEffect(() => {
      const b = box.current;
      if (!b) return;
      const look = lookOf(b, color);
      const y = rangeOf(s);
      const quiet = { show: false };
      const u = new uPlot(
        {
          width,
          height,
          ms: 1,
          padding: [0, right, 0, 0],
          legend: quiet,
          tzDate: (at) => uPlot.tzDate(new Date(at), whole.zone),
          scales: { x: { time: true, range: () => [now.current.span.from, now.current.span.to] }, y: { range: () => [y.low, y.high] } },
          cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: quiet, sync: { key: group, setSeries: false } },
          axes: [
            {
              stroke: look.muted,
              font: look.font,
              size: last ? heights.axis : 0,
              gap: 7,
              space: 76,
              grid: { stroke: look.line, width: 1 },
              ticks: quiet,
              values: (_, splits) => splits.map((at) => (last ? label(at, whole.zone, right + (width - left - right) * (1 - shareOf(at, now.current.span))) : "")),
            },
            {
              show: true,
              stroke: look.muted,
              font: look.font,
              size: left,
              gap: 8,
              space: 26,
              grid: { stroke: look.line, width: 1, show: isNumber(s) },
              ticks: quiet,
              values: (_, splits) => splits.map((v) => (isNumber(s) ? amount(v) : "")),
            },
          ],
          series: [
            {},
            isNumber(s)
              ? { stroke: look.color, width: 1.5, points: quiet, spanGaps: false, paths: uPlot.paths.stepped?.({ align: 1, alignGaps: 1 }) ?? (() => null) }
              : { points: quiet, paths: () => null },
          ],
          hooks: {
            ...(isNumber(s) ? { drawClear: [(u) => gaps(u, s, whole.to, look)] } : { drawAxes: [(u) => stretches(u, s, whole.to, look)] }),
            draw: [(u) => now.current.onDrawn(placesOf(u, s, height))],
            setCursor: [
              (u) => {
                const x = u.cursor.left ?? -1;
                if (u.cursor.event) now.current.onCursor(x < 0 ? undefined : u.posToVal(x, "x"));
              },
            ],
          },
        },
        dataOf(s, whole.to),
        b,
      );
      plot.current = u;
      return () => u.destroy();
    }, [s, width, height, last, color, theme, group, whole.from, whole.to, whole.zone]);

    useEffect(() => {
      plot.current?.setScale("x", { min: span.from, max: span.to });
    }, [span.from, span.to]);

    return <div ref={box} style={{ height }} />;
  },
  (a, b) => a.series === b.series && a.span === b.span && a.width === b.width && a.last === b.last && a.theme === b.theme && a.whole === b.whole,
);

interface Look {
  color: string;
  muted: string;
  text: string;
  line: string;
  ground: string;
  calm: string;
  danger: string;
  hole: string;
  font: string;
}

function lookOf(e: Element, color: string): Look {
  const style = getComputedStyle(e);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    color: read(color),
    muted: read("--color-text-muted"),
    text: read("--color-text-primary"),
    line: read("--color-border"),
    ground: read("--color-bg"),
    calm: read("--color-bubble"),
    danger: read("--color-danger"),
    hole: read("--color-danger-surface"),
    font: `12px ${style.fontFamily}`,
  };
}

function rangeOf(s: Series): { low: number; high: number } {
  const b = boundsOf(s);
  if (!b) return { low: 0, high: 1 };
  const pad = b.low === b.high ? Math.max(Math.abs(b.high) * 0.05, 1) : (b.high - b.low) * 0.1;
  return { low: b.low - pad, high: b.high + pad };
}

/** The last value holds until the end. */
function dataOf(s: Series, to: number): uPlot.AlignedData {
  if (!isNumber(s)) return [[...s.states.map(([at]) => at), to], [...s.states.map(() => 0.5), 0.5]];
  return [
    [...s.points.map(([at]) => at), to],
    [...s.points.map(([, v]) => v), s.points.at(-1)?.[1] ?? null],
  ];
}

const shareOf = (at: number, s: Span): number => (at - s.from) / (s.to - s.from);

/** The time of a tick with so many pixels to its right; a day without its weekday where that would be cut off. */
function label(at: number, zone: string, room: number): string {
  const clock = clockIn(zone, at, at % 60_000 !== 0);
  if (clock !== "00:00") return clock;
  return room < 36 ? dayIn(zone, at).replace(/^\w+ /, "") : dayIn(zone, at);
}

function placesOf(u: uPlot, s: Series, height: number): Drawn {
  return {
    x: (at) => u.valToPos(at, "x") + u.over.offsetLeft,
    y: (at) => {
      const v = isNumber(s) ? (s.points[indexAt(s.points, at)]?.[1] ?? null) : 0.5;
      return (v === null ? u.over.clientHeight - 4 : u.valToPos(v, "y")) + u.over.offsetTop - height;
    },
  };
}

/** The times without a value. */
function gaps(u: uPlot, s: Series, to: number, look: Look): void {
  s.points.forEach(([at, v], i) => {
    if (v !== null) return;
    const x = u.valToPos(at, "x", true);
    const end = u.valToPos(s.points[i + 1]?.[0] ?? to, "x", true);
    fill(u, look.hole, x, Math.max(end, x + 1));
  });
}

function stretches(u: uPlot, s: Series, to: number, look: Look): void {
  const ratio = devicePixelRatio;
  const shades: string[] = [];
  const { ctx } = u;
  ctx.save();
  ctx.font = `${12 * ratio}px ${look.font.slice(5)}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const draw = (gone: boolean) =>
    s.states.forEach(([at, state], i) => {
      const tone = toneOfState(state);
      if ((tone === "gone") !== gone) return;
      const x = u.valToPos(at, "x", true);
      const end = Math.max(u.valToPos(s.states[i + 1]?.[0] ?? to, "x", true), x + 1.5 * ratio); // at least wide enough to be seen
      if (tone === "on" && !shades.includes(state)) shades.push(state);
      const shade = shades.indexOf(state) % 4;
      ctx.globalAlpha = tone === "on" ? 1 - 0.22 * shade : 1;
      fill(u, tone === "on" ? look.color : tone === "quiet" ? look.calm : end - x < 8 * ratio ? look.danger : look.hole, x, end);
      ctx.globalAlpha = 1;
      const word = stateWord(s, state);
      const from = Math.max(x, u.bbox.left) + 6 * ratio;
      if (ctx.measureText(word).width + 6 * ratio > Math.min(end, u.bbox.left + u.bbox.width) - from) return;
      ctx.fillStyle = tone === "quiet" ? look.muted : tone === "gone" ? look.danger : shade < 2 ? look.ground : look.text;
      ctx.fillText(word, from, u.bbox.top + u.bbox.height / 2 + ratio);
    });
  draw(false);
  draw(true); // drawn last, since most are short
  ctx.restore();
}

function fill(u: uPlot, color: string, from: number, to: number): void {
  const { left: start, width, top, height } = u.bbox;
  const x = Math.max(from, start);
  const end = Math.min(to, start + width);
  if (end <= x) return;
  u.ctx.fillStyle = color;
  u.ctx.fillRect(x, top, end - x, height);
}
