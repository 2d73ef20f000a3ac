import { lazy, Suspense, useCallback, useEffect, useRef, useState, type ReactNode } from "react";
import { useStore } from "zustand";

import { toApiError, type ApiError } from "../../api/client.ts";
import type { Exchange } from "../../session/exchange.ts";
import { isOpen } from "../../session/exchange.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { LeadsContext } from "../../ui/leads.ts";
import { sentence } from "../../ui/text.ts";
import type { Chart as Data } from "./chart.ts";
import { leadsIn } from "./evidence.ts";
import { goTo, useEvidence } from "./use-evidence.ts";
import { useHome } from "./use-home.ts";

const Chart = lazy(() => import("./Chart.tsx"));

/** Makes the figures of an answer lead to their sources. */
export function Leading({ exchange: x, children }: { exchange: Exchange; children: ReactNode }) {
  return isOpen(x.standing) ? children : <Led exchange={x}>{children}</Led>;
}

function Led({ exchange: x, children }: { exchange: Exchange; children: ReactNode }) {
  const { evidence } = useHome();
  const of = useEvidence(x.id);
  const find = useCallback((text: string) => leadsIn(text, of).map(({ from, to, target }) => ({ from, to, open: () => goTo(evidence, target) })), [of, evidence]);
  return <LeadsContext value={find}>{children}</LeadsContext>;
}

const hour = 3_600_000;

/** The history of an entity around a moment that no chart of the conversation covers, read from the house. */
export function Past() {
  const { evidence } = useHome();
  const shown = useStore(evidence, (s) => (s.shown?.kind === "past" ? s.shown : undefined));
  if (!shown) return null;
  return <Window key={shown.wish} entity={shown.entity} at={shown.at} wish={shown.wish} onClose={() => goTo(evidence, undefined)} />;
}

function Window({ entity, at, wish, onClose }: { entity: string; at: number; wish: number; onClose(): void }) {
  const { entities } = useHome();
  const [chart, setChart] = useState<Data | ApiError>();
  const [point, setPoint] = useState<{ entity: string; at: number; wish: number } | undefined>({ entity, at, wish });
  const next = useRef(wish);
  useEffect(() => {
    const stop = new AbortController();
    entities.past(entity, at - 6 * hour, Math.min(at + 6 * hour, Date.now()), stop.signal).then(setChart, (cause: unknown) => stop.signal.aborted || setChart(toApiError(cause)));
    return () => stop.abort("closed");
  }, [entities, entity, at]);
  const title = chart && !(chart instanceof Error) ? (chart.series[0]?.name ?? entity) : entity;
  const nothing = chart && !(chart instanceof Error) && chart.series.every((s) => s.points.length + s.states.length === 0);
  return (
    <Dialog wide title={title} onClose={onClose}>
      {!chart && <p className="py-10 text-center text-sm text-text-muted">Reading the history from the house…</p>}
      {chart instanceof Error && (
        <p role="alert" className="py-4 text-sm">
          Its history cannot be read now. <span className="text-text-muted">{`${sentence(chart.message)} ${sentence(chart.hint)}`}</span>
        </p>
      )}
      {nothing && <p className="py-4 text-sm">The house has no record of it around that time. Most houses keep records for ten days.</p>}
      {chart && !(chart instanceof Error) && !nothing && (
        <Suspense fallback={<div className="h-60" />}>
          <div className="overflow-hidden rounded-xl border border-border">
            <Chart chart={chart} shown={point} alone onShow={(p) => setPoint(p && { ...p, wish: ++next.current })} />
          </div>
        </Suspense>
      )}
    </Dialog>
  );
}
