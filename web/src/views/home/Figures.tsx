import { useMemo } from "react";

import { Artifacts } from "../../chat/artifacts/Artifacts.tsx";
import { useChat } from "../../chat/use-chat.ts";
import type { Exchange } from "../../session/exchange.ts";
import { plotsOf } from "./chart.ts";
import { PlotFigure } from "./PlotFigure.tsx";

/** The artifacts of the tools: charts are drawn, the rest is shown as on every page. */
export function Figures({ exchange }: { exchange: Exchange }) {
  const events = useChat((s) => s.opened.records.events.get(exchange.id));
  const { plots, rest } = useMemo(() => plotsOf(events ?? []), [events]);
  if (plots.length + rest.length === 0) return null;
  return (
    <div className="flex flex-col gap-3">
      {plots.map((p) => (
        <PlotFigure key={p.key} plot={p} turn={exchange.id} />
      ))}
      <Artifacts artifacts={rest} />
    </div>
  );
}
