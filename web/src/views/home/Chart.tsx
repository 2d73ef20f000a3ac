import { useCallback, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

import "uplot/dist/uPlot.min.css";

import { IconButton } from "../../ui/button.tsx";
import { Expand, Minus, Plus, Retry } from "../../ui/icons.tsx";
import { useMedia } from "../../ui/use-media.ts";
import { useTheme } from "../../ui/theme.ts";
import { Band, left, right, type Drawn, type Span } from "./Band.tsx";
import { heights, momentIn, stopsOf, summaryOf, valueAt, windowText, type Chart as Data } from "./chart.ts";
import { ChartTable } from "./ChartTable.tsx";
import { useGestures } from "./use-gestures.ts";

/** The highlighted point: its entity and time. A new wish number makes showing the same point again a change. */
export interface Shown {
  entity: string;
  at: number;
  wish: number;
}

interface Props {
  chart: Data;
  shown?: Shown | undefined;
  /** The reader selected a point, or none. */
  onShow(point: { entity: string; at: number } | undefined): void;
  /** Goes from the highlighted point to the place where it is mentioned. */
  toLog?: (() => void) | undefined;
  onEnlarge?: () => void;
  /** The wheel zooms without a key: nothing else on the page scrolls. */
  alone?: boolean;
  /** Shown at the end of the bar below. */
  children?: ReactNode;
}

/** The series of a chart, one above the other on a common time axis that can be zoomed and panned. */
export default function Chart({ chart, shown, onShow, toLog, onEnlarge, alone = false, children }: Props) {
  const theme = useTheme();
  const light = useMedia("(prefers-color-scheme: light)");
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [span, setSpan] = useState<Span>({ from: chart.from, to: chart.to });
  const [cursor, setCursor] = useState<number>();
  const drawn = useRef(new Map<number, Drawn>());
  const [, redraw] = useState(0);
  const name = useId();
  const zoomed = span.from > chart.from || span.to < chart.to;
  const stops = useMemo(
    () => chart.series.flatMap((s, i) => stopsOf(s).map((m) => ({ ...m, series: i, entity: s.entity_id }))).sort((a, b) => a.at - b.at || a.series - b.series),
    [chart],
  );
  const at = shown && chart.series.findIndex((s) => s.entity_id === shown.entity);
  const target = shown && at !== undefined && at >= 0 ? { ...shown, series: at } : undefined;
  const of = target ? chart.series[target.series] : undefined;

  useEffect(() => {
    const b = box.current;
    if (!b) return;
    const measured = new ResizeObserver(() => setWidth(Math.floor(b.clientWidth)));
    measured.observe(b);
    setWidth(Math.floor(b.clientWidth));
    return () => measured.disconnect();
  }, []);

  /** Shows a part of the time range, within the available data and the smallest readable range. */
  const show = useCallback(
    (from: number, to: number) => {
      const whole = chart.to - chart.from;
      const wide = Math.min(whole, Math.max(to - from, Math.min(whole, 20_000)));
      const start = Math.min(Math.max(from, chart.from), chart.to - wide);
      setSpan({ from: start, to: start + wide });
    },
    [chart],
  );
  const zoom = useCallback((by: number, around?: number) => setSpan((s) => {
    const centre = around ?? (s.from + s.to) / 2;
    const whole = chart.to - chart.from;
    const wide = Math.min(whole, Math.max((s.to - s.from) / by, Math.min(whole, 20_000)));
    const start = Math.min(Math.max(centre - (centre - s.from) * (wide / (s.to - s.from)), chart.from), chart.to - wide);
    return { from: start, to: start + wide };
  }), [chart]);
  useGestures(box, { span, inner: width - left - right, show, zoom, zoomed, alone });

  // A point outside the visible range is brought into view.
  const wish = shown?.wish;
  useEffect(() => {
    if (!target) return;
    setSpan((s) => (target.at < s.from || target.at > s.to ? { from: chart.from, to: chart.to } : s));
  }, [wish]);

  const onKeyDown = (e: KeyboardEvent) => {
    if (e.target !== e.currentTarget) return;
    const wide = span.to - span.from;
    switch (e.key) {
      case "+":
      case "=":
        zoom(1.6);
        break;
      case "-":
        zoom(1 / 1.6);
        break;
      case "0":
        show(chart.from, chart.to);
        break;
      case "ArrowLeft":
        show(span.from - wide / 5, span.to - wide / 5);
        break;
      case "ArrowRight":
        show(span.from + wide / 5, span.to + wide / 5);
        break;
      default:
        return;
    }
    e.preventDefault();
  };

  /** Moves to the next or previous stop. */
  const step = (from: number, by: number) => {
    const next = stops[(from + by + stops.length) % stops.length];
    if (!next) return;
    onShow({ entity: next.entity, at: next.at });
    box.current?.querySelector<HTMLElement>(`[data-stop="${next.series}.${next.at}"]`)?.focus({ preventScroll: true });
  };
  const first = Math.max(0, stops.findIndex((s) => target && s.series === target.series && s.at === target.at));

  return (
    <div className="flex flex-col bg-bg">
      <div
        ref={box}
        role="group"
        tabIndex={0}
        aria-label={`Chart, ${windowText(chart)}. Plus and minus zoom, arrows move, 0 shows all.`}
        onKeyDown={onKeyDown}
        onPointerLeave={() => setCursor(undefined)}
        className={`relative touch-pan-y pt-3 select-none -outline-offset-2 ${zoomed ? "cursor-grab active:cursor-grabbing" : ""}`}
      >
        {chart.series.map((s, i) => {
          const last = i === chart.series.length - 1;
          const value = cursor !== undefined ? valueAt(s, cursor) : target?.series === i ? valueAt(s, target.at) : "";
          return (
            <div key={`${s.entity_id}.${i}`} data-series={s.entity_id} style={{ paddingBottom: last ? 0 : heights.gap }}>
              <div className="flex min-h-[26px] flex-wrap items-center justify-between gap-x-3 pr-3 text-[13px] leading-[18px]" style={{ paddingLeft: 12 }}>
                <span className="flex min-w-0 items-baseline gap-2">
                  <span aria-hidden="true" className="size-2.5 shrink-0 rounded-[2px]" style={{ background: `var(--color-chart-${(i % 4) + 1})` }} />
                  <span className="font-semibold wrap-anywhere">{s.name}</span>
                  {s.unit && <span className="text-text-muted">{s.unit}</span>}
                </span>
                <span className={`relative z-[1] ml-auto bg-bg pl-1 text-right text-xs tabular-nums ${value ? "font-medium" : "text-text-muted"}`}>{value || summaryOf(s)}</span>
              </div>
              <div className="relative" role="img" aria-label={`${s.name}: ${summaryOf(s)}${s.marks.length > 0 ? `; ${s.marks.length} values stand out` : ""}`}>
                {width > 0 && (
                  <Band
                    series={s}
                    span={span}
                    whole={chart}
                    width={width}
                    last={last}
                    color={`--color-chart-${(i % 4) + 1}`}
                    theme={`${theme} ${light}`}
                    group={name}
                    onCursor={setCursor}
                    onDrawn={(d) => {
                      drawn.current.set(i, d);
                      redraw((n) => n + 1);
                    }}
                  />
                )}
                {width > 0 && target && target.at >= span.from && target.at <= span.to && (
                  <div
                    aria-hidden="true"
                    className="pointer-events-none absolute top-0 w-px border-l border-dashed border-text-primary/60"
                    style={{ left: left + ((target.at - span.from) / (span.to - span.from)) * (width - left - right), bottom: last ? heights.axis : 0 }}
                  />
                )}
              </div>
              <Stops {...{ i, span, stops, target, first, onShow, step }} zone={chart.zone} name={s.name} drawn={drawn.current.get(i)} band={box.current} />
            </div>
          );
        })}
      </div>
      <div className="flex min-h-11 flex-wrap items-center gap-x-2 gap-y-0.5 px-3 py-1 text-xs text-text-muted">
        <div role="status" className="min-w-0 flex-1 basis-52 tabular-nums">
          {cursor !== undefined ? (
            momentIn(chart.zone, cursor)
          ) : target && of ? (
            <span className="text-text-primary" data-shown={target.at}>
              {momentIn(chart.zone, target.at)} · {of.name} · {valueAt(of, target.at)}
              {toLog && (
                <button type="button" onClick={toLog} className="reach ml-2 rounded underline underline-offset-2">
                  In the log
                </button>
              )}
            </span>
          ) : (
            <>
              {windowText({ ...chart, ...span })} <span className="whitespace-nowrap">· {chart.zone}</span>
            </>
          )}
        </div>
        <div className="-mr-1.5 ml-auto flex items-center">
          {zoomed && (
            <IconButton label="Show the whole time" onClick={() => show(chart.from, chart.to)}>
              <Retry size={16} />
            </IconButton>
          )}
          <IconButton label="Zoom out" disabled={!zoomed} onClick={() => zoom(1 / 1.6, target?.at)}>
            <Minus size={16} />
          </IconButton>
          <IconButton label="Zoom in" onClick={() => zoom(1.6, target?.at)}>
            <Plus size={16} />
          </IconButton>
          {onEnlarge && (
            <IconButton label="Enlarge the chart" onClick={onEnlarge}>
              <Expand size={16} />
            </IconButton>
          )}
        </div>
      </div>
      <div className="flex flex-wrap items-center justify-between gap-x-4 border-t border-border bg-surface px-3 py-1 text-xs text-text-muted">
        <ChartTable chart={chart} />
        {children}
      </div>
    </div>
  );
}

interface StopsProps {
  i: number;
  span: Span;
  stops: readonly { at: number; text: string; series: number; entity: string }[];
  target: { entity: string; at: number; series: number } | undefined;
  first: number;
  zone: string;
  name: string;
  drawn: Drawn | undefined;
  band: HTMLElement | null;
  onShow(point: { entity: string; at: number } | undefined): void;
  step(from: number, by: number): void;
}

/**
 * The stops of a series as buttons over it, and the highlighted point. One of them is in the tab
 * order; arrow keys move between them.
 */
function Stops({ i, span, stops, target, first, zone, name, drawn, onShow, step }: StopsProps) {
  if (!drawn) return null;
  const place = (at: number) => ({ left: drawn.x(at), top: drawn.y(at) });
  const seen = (at: number) => at >= span.from && at <= span.to;
  const other = target && target.series === i && seen(target.at) && !stops.some((s) => s.series === i && s.at === target.at);
  return (
    <div className="relative h-0">
      {stops.map((s, n) => {
        if (s.series !== i || !seen(s.at)) return null;
        const shown = target?.series === i && target.at === s.at;
        return (
          <button
            key={s.at}
            type="button"
            data-stop={`${i}.${s.at}`}
            {...(shown && { "data-point": s.at })}
            tabIndex={n === first ? 0 : -1}
            aria-pressed={shown}
            aria-label={`${name}: ${s.text}, ${momentIn(zone, s.at)}`}
            onPointerDown={(e) => e.stopPropagation()}
            onClick={() => onShow(shown ? undefined : { entity: s.entity, at: s.at })}
            onKeyDown={(e) => {
              if (e.key !== "ArrowRight" && e.key !== "ArrowLeft") return;
              e.preventDefault();
              step(n, e.key === "ArrowRight" ? 1 : -1);
            }}
            style={place(s.at)}
            className={`absolute grid size-6 -translate-1/2 place-items-center rounded-full ${shown ? "z-10" : ""}`}
          >
            <span className={`rounded-full ${shown ? "size-3.5 bg-accent ring-2 ring-text-primary" : "size-2 bg-danger ring-2 ring-bg"}`} />
          </button>
        );
      })}
      {other && (
        <span data-point={target.at} aria-hidden="true" style={place(target.at)} className="pointer-events-none absolute z-10 size-3.5 -translate-1/2 rounded-full bg-accent ring-2 ring-text-primary" />
      )}
    </div>
  );
}
