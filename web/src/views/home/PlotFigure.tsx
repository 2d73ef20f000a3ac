import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import { useStore } from "zustand";

import type { ApiError } from "../../api/client.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { useActions } from "../../chat/use-chat.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { sentence } from "../../ui/text.ts";
import { heightFor, windowText, type Chart as Data, type Plot } from "./chart.ts";
import { lineAbout } from "./evidence.ts";
import { Download, Picture } from "../../chat/artifacts/Picture.tsx";
import { goTo, passes, useEvidence, wantChart } from "./use-evidence.ts";
import { useHome } from "./use-home.ts";

const Chart = lazy(() => import("./Chart.tsx"));

/** A chart in an answer, drawn from its values; its picture if these are not available. */
export function PlotFigure({ plot, turn }: { plot: Plot; turn: string }) {
  const { client } = useActions();
  const { evidence } = useHome();
  const chart = useStore(evidence, (s) => s.charts.get(plot.chart.id));
  const id = plot.chart.id;
  useEffect(() => wantChart(evidence, client, id), [evidence, client, id]);
  if (chart instanceof Error) {
    if (passes(chart)) return <Unread error={chart} onAgain={() => wantChart(evidence, client, id)} />;
    return plot.image ? (
      <Picture artifact={plot.image} note="Its values are no longer available. This is a picture of them." />
    ) : (
      <p className="rounded-xl border border-border px-3.5 py-3 text-sm text-text-muted">
        {chart.status === 404 || chart.status === 410 ? "This chart is no longer stored." : "This chart could not be loaded."} {sentence(chart.hint)}
      </p>
    );
  }
  // Its room is reserved before it is drawn.
  const height = heightFor(chart ? chart.series.map((s) => s.points.length > 0) : plot.numbers);
  const room = <div aria-hidden="true" className="animate-pulse-soft bg-surface" style={{ height }} />;
  return (
    <figure data-plot={id} className="overflow-hidden rounded-xl border border-border" style={{ minHeight: height }}>
      {!chart ? (
        room
      ) : (
        <Boundary fallback={plot.image ? <Picture artifact={plot.image} /> : <p className="px-3.5 py-3 text-sm text-text-muted">This chart cannot be drawn here.</p>} retry={id}>
          <Suspense fallback={room}>
            <Drawn plot={plot} chart={chart} turn={turn} />
          </Suspense>
        </Boundary>
      )}
    </figure>
  );
}

/** A chart whose values could not be read now. */
function Unread({ error, onAgain }: { error: ApiError; onAgain(): void }) {
  const [asked, setAsked] = useState<ApiError>();
  return (
    <div role="status" className="flex flex-wrap items-center justify-between gap-3 rounded-xl border border-border px-3.5 py-3 text-sm text-text-muted">
      <span className="min-w-0 wrap-anywhere">This chart could not be loaded. {sentence(error.hint)}</span>
      <Button
        kind="quiet"
        busy={asked === error}
        onClick={() => {
          setAsked(error);
          onAgain();
        }}
      >
        Try again
      </Button>
    </div>
  );
}

function Drawn({ plot, chart, turn }: { plot: Plot; chart: Data; turn: string }) {
  const { evidence } = useHome();
  const of = useEvidence(turn);
  const [large, setLarge] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const shown = useStore(evidence, (s) => (s.shown?.kind === "point" && s.shown.plot === plot.chart.id ? s.shown : undefined));
  const line = useMemo(() => shown && lineAbout(shown, chart, of), [shown, chart, of]);
  const wish = shown?.wish;
  const own = useRef(0); // a point chosen here is already visible
  useEffect(() => {
    if (!shown || own.current === wish) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const b = box.current;
    const tall = b && b.clientHeight > innerHeight * 0.6;
    (tall ? (b.querySelector(`[data-series="${CSS.escape(shown.entity)}"]`) ?? b) : b)?.scrollIntoView({ block: "center", behavior: still ? "instant" : "smooth" });
    b?.querySelector<HTMLElement>("[role=group]")?.focus({ preventScroll: true });
  }, [wish]);
  const draw = (alone: boolean) => (
    <Chart
      chart={chart}
      shown={shown}
      alone={alone}
      onShow={(p) => {
        goTo(evidence, p && { kind: "point", plot: plot.chart.id, ...p });
        own.current = evidence.getState().shown?.wish ?? 0;
      }}
      toLog={line && (() => (setLarge(false), goTo(evidence, line)))}
      {...(!alone && { onEnlarge: () => setLarge(true) })}
    >
      <span className="flex gap-4">
        {plot.image && <Download artifact={plot.image} text="Image" />}
        <Download artifact={plot.chart} text="Values" />
      </span>
    </Chart>
  );
  return (
    <div ref={box}>
      {draw(false)}
      {large && (
        <Dialog wide title={windowText(chart)} onClose={() => setLarge(false)}>
          <div className="overflow-hidden rounded-xl border border-border">{draw(true)}</div>
        </Dialog>
      )}
    </div>
  );
}
