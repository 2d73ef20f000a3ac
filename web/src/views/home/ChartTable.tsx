import { useId, useState } from "react";

import { isNumber, momentIn, stateWord, stopsOf, summaryOf, windowText, withUnit, type Chart, type Series } from "./chart.ts";
import { Dialog } from "../../ui/dialog.tsx";

/** Most rows of one series; nobody reads more. */
const most = 200;

/** The content of a chart as text and numbers. */
export function ChartTable({ chart }: { chart: Chart }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)} className="min-h-8 rounded underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
        As a table
      </button>
      {open && (
        <Dialog wide title={`Values, ${windowText(chart)} (${chart.zone})`} onClose={() => setOpen(false)}>
          <div className="flex flex-col gap-6 text-text-primary">
            {chart.series.map((s, i) => (
              <Values key={i} series={s} zone={chart.zone} />
            ))}
          </div>
        </Dialog>
      )}
    </>
  );
}

function Values({ series: s, zone }: { series: Series; zone: string }) {
  const name = useId();
  const marks = new Set(stopsOf(s).map((m) => m.at));
  const all: [number, string][] = isNumber(s)
    ? s.points.map(([at, v]) => [at, v === null ? "no value" : withUnit(v, s.unit)])
    : s.states.map(([at, state]) => [at, stateWord(s, state)]);
  // Of many rows, the last ones and all that stand out.
  const rows = all.filter(([at], i) => marks.has(at) || i >= all.length - most);
  return (
    <section aria-labelledby={name}>
      <h3 id={name} className="mb-1 text-sm font-semibold">
        {s.name} <span className="font-normal text-text-muted">{summaryOf(s)}</span>
      </h3>
      {(s.thinned || rows.length < all.length) && (
        <p className="mb-1 text-xs text-text-muted">The values that stand out, and the last {Math.min(most, all.length)} values.</p>
      )}
      <div className="max-h-80 overflow-y-auto rounded-lg border border-border" tabIndex={0} role="region" aria-label={`Values of ${s.name}`}>
        <table className="w-full text-[13px] tabular-nums">
          <thead className="sticky top-0 bg-surface text-left">
            <tr>
              <th className="px-3 py-1.5 font-semibold">From</th>
              <th className="px-3 py-1.5 font-semibold">Value</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([at, text]) => (
              <tr key={at} className={`border-t border-border ${marks.has(at) ? "font-semibold" : ""}`}>
                <td className="px-3 py-1">{momentIn(zone, at)}</td>
                <td className="px-3 py-1">
                  {text}
                  {marks.has(at) && <span className="sr-only"> (stands out)</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
