import { useEffect, useMemo } from "react";
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError, type Client } from "../../api/client.ts";
import type { Event } from "../../api/types.gen.ts";
import { useActions, useChat } from "../../chat/use-chat.ts";
import { queryOf } from "../../session/exchange.ts";
import { stepsOf, type Step } from "../../session/steps.ts";
import { plotsOf, readChart, type Chart } from "./chart.ts";
import type { Evidence, Said, Target } from "./evidence.ts";
import { useHome } from "./use-home.ts";

/** The loaded charts, and the highlighted piece of evidence. */
export interface EvidenceState {
  /** Charts by the id of their artifact. */
  charts: ReadonlyMap<string, Chart | ApiError>;
  /** A new wish number makes going to the same target again a change. */
  shown: (Target & { wish: number }) | undefined;
}

export const createEvidence = (): StoreApi<EvidenceState> => createStore<EvidenceState>(() => ({ charts: new Map(), shown: undefined }));

let wishes = 0;

export function goTo(evidence: StoreApi<EvidenceState>, target: Target | undefined): void {
  evidence.setState({ shown: target && { ...target, wish: ++wishes } });
}

/** Charts kept in memory; the oldest are dropped. */
const mostCharts = 40;

const asked = new WeakMap<StoreApi<EvidenceState>, Set<string>>();

/** Whether the values may be there later. A request that got no answer has status 0. */
export const passes = (e: ApiError): boolean => e.code === "unreachable" || e.status === 429 || e.status >= 500;

/** After a failure that passes, a chart is requested again after so many ms, unless the server says when. Longer waits are left to the reader. */
const again = [500, 1000, 2000];
const longestWait = 10_000;

async function readAgain(client: Client, id: string): Promise<unknown> {
  for (let n = 0; ; n++) {
    try {
      return await client.read(id);
    } catch (cause) {
      const e = toApiError(cause);
      const wait = again[n];
      if (wait === undefined || !passes(e) || e.retryAfterMs > longestWait) throw e;
      await new Promise((done) => setTimeout(done, e.retryAfterMs || wait));
    }
  }
}

/** Reads a chart once. After a failure that passes, the next viewer requests it again. */
export function wantChart(evidence: StoreApi<EvidenceState>, client: Client, id: string): void {
  let busy = asked.get(evidence);
  if (!busy) asked.set(evidence, (busy = new Set()));
  const have = evidence.getState().charts.get(id);
  if (busy.has(id) || (have && !(have instanceof Error && passes(have)))) return;
  busy.add(id);
  const keep = (c: Chart | ApiError) => {
    busy.delete(id);
    evidence.setState((s) => ({ charts: new Map([...s.charts, [id, c] as const].slice(-mostCharts)) }));
  };
  readAgain(client, id).then(
    (raw) => keep(readChart(raw) ?? toApiError(new SyntaxError("the values cannot be drawn"))),
    (cause: unknown) => keep(toApiError(cause)),
  );
}

/** A step's content as one text. */
const textOf = (s: Step): string => [s.text, s.input !== undefined && queryOf(s.input), s.detail, ...(s.snippets ?? []).map((n) => `${n.ref}: ${n.text}`)].filter(Boolean).join("\n");

const saidIn = new WeakMap<readonly Event[], Said[]>();

/** The texts of a turn's tools, the results first. */
function saidOf(turn: string, events: readonly Event[]): Said[] {
  let said = saidIn.get(events);
  if (!said) {
    const steps = stepsOf(events).filter((s) => s.kind !== "agent" && s.kind !== "plan" && s.kind !== "handoff");
    const rank = (s: Step) => (s.kind === "tool_result" ? 0 : s.kind === "tool_call" ? 2 : 1);
    said = steps.sort((a, b) => rank(a) - rank(b) || b.seq - a.seq).map((s) => ({ turn, seq: s.seq, text: textOf(s) }));
    saidIn.set(events, said);
  }
  return said;
}

/** The possible evidence of an answer: the charts and steps of its turn, then those of earlier turns. */
export function useEvidence(turn: string): Evidence {
  const { client } = useActions();
  const { evidence } = useHome();
  const exchanges = useChat((s) => s.opened.exchanges);
  const events = useChat((s) => s.opened.records.events);
  const charts = useStore(evidence, (s) => s.charts);
  const index = exchanges.findIndex((x) => x.id === turn);
  // In long sessions only nearby turns are searched.
  const before = exchanges.slice(Math.max(0, index - 3), index + 1).map((x) => x.id).reverse();
  const key = before.join(" ");
  const all = useMemo(
    () =>
      before.map((id) => {
        const of = events.get(id) ?? [];
        return { said: saidOf(id, of), plots: plotsOf(of).plots };
      }),
    [key, ...before.map((id) => events.get(id))],
  );
  const ids = all.flatMap((t) => t.plots.map((p) => p.chart.id));
  const wanted = ids.join(" ");
  useEffect(() => {
    for (const id of ids) wantChart(evidence, client, id);
  }, [wanted, evidence, client]);
  return useMemo(
    () => ({
      charts: ids.flatMap((id) => {
        const chart = charts.get(id);
        return chart && !(chart instanceof Error) ? [{ plot: id, chart }] : [];
      }),
      said: all.flatMap((t) => t.said),
    }),
    [all, wanted, ...ids.map((id) => charts.get(id))],
  );
}
