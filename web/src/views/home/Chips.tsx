import { useEffect, useId, useState } from "react";

import type { Citation } from "../../api/types.gen.ts";
import { Next } from "../../chat/FollowUps.tsx";
import type { Exchange } from "../../session/exchange.ts";
import { House } from "../../ui/icons.tsx";
import { quoted, targetOf, type Evidence } from "./evidence.ts";
import { goTo, useEvidence } from "./use-evidence.ts";
import { showEntity, useHome, useHouse } from "./use-home.ts";

/** The sources of the answer, and suggested next questions. */
export function Chips({ exchange: x, last }: { exchange: Exchange; last: boolean }) {
  const citations = x.citations ?? [];
  const next = last ? (x.followUps ?? []) : [];
  if (citations.length === 0 && next.length === 0) return null;
  return (
    <div className="flex flex-col gap-3">
      {citations.length > 0 && <Citations turn={x.id} citations={citations} />}
      <Next questions={next} />
    </div>
  );
}

/** The name of an entity in a chart, for entities that the panel does not list. */
const charted = (id: string, of: Evidence): string | undefined => of.charts.flatMap((c) => c.chart.series).find((s) => s.entity_id === id)?.name;

const entityID = /^[a-z_]+\.[a-z0-9_]+$/;

/**
 * A source leads to its point in a chart, or to its line in the log. An entity with neither is
 * shown in the house panel, or its history is read. Quotations are shown below.
 */
function Citations({ turn, citations }: { turn: string; citations: readonly Citation[] }) {
  const { panel, entities: house, evidence } = useHome();
  const of = useEvidence(turn);
  const entities = useHouse((h) => h.entities);
  const [shown, setShown] = useState(-1);
  const name = useId();
  const named = citations.some((c) => entityID.test(c.ref));
  useEffect(() => {
    if (named) void house.peek();
  }, [named, house]);
  const quote = citations[shown]?.quote;
  const open = (c: Citation) => {
    const entity = entityID.test(c.ref);
    const target = targetOf(c, of);
    if (target) goTo(evidence, target);
    else if (entity && (entities.has(c.ref) || entities.size === 0)) showEntity(panel, c.ref);
    else goTo(evidence, quoted(c.quote ?? "", of) ?? quoted(c.ref, of) ?? (entity ? { kind: "past", entity: c.ref, at: Date.now() } : undefined));
  };
  return (
    <div className="flex flex-col gap-2">
      <ul aria-label="Sources" className="flex flex-wrap gap-1.5 [@media(pointer:coarse)]:gap-2">
        {citations.map((c, i) => {
          const entity = entityID.test(c.ref);
          const label = entities.get(c.ref)?.name ?? charted(c.ref, of) ?? c.ref;
          return (
            <li key={`${c.source}.${c.ref}.${i}`} className="max-w-full">
              <button
                type="button"
                title={entity ? `${c.ref}: show where this is from` : `${c.source}: ${c.ref}`}
                {...(!entity && c.quote && { "aria-expanded": shown === i, "aria-controls": name })}
                onClick={() => {
                  open(c);
                  setShown(shown === i || !c.quote ? -1 : i);
                }}
                className={`reach inline-flex h-7 max-w-full [@media(pointer:coarse)]:h-9 items-center gap-1.5 rounded-md border px-2 text-xs hover:bg-hover ${shown === i ? "border-accent/60" : "border-border"}`}
              >
                <span className="shrink-0 whitespace-nowrap text-text-muted">{entity ? <House size={13} /> : c.source}</span>
                <span className="truncate">{label}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {quote && (
        <blockquote id={name} className="border-l-2 border-border pl-3 text-sm wrap-anywhere whitespace-pre-wrap text-text-muted">
          {quote}
        </blockquote>
      )}
    </div>
  );
}
