import { useMemo } from "react";

import type { Event } from "../../api/types.gen.ts";
import type { Exchange } from "../../session/exchange.ts";
import { whyOf } from "../../session/why.ts";

/** What happened in a turn and why, in sentences. */
export function Why({ exchange: x, events }: { exchange: Exchange; events: readonly Event[] }) {
  const why = useMemo(() => whyOf(x, events), [x, events]);
  return (
    <section aria-label="Why" className="mb-5 rounded-xl border border-border bg-surface px-4 py-3 text-sm">
      <p className="wrap-anywhere">{why.verdict}</p>
      {why.facts.length > 0 && (
        <ul className="mt-1 list-disc pl-4 text-text-muted">
          {why.facts.map((f) => (
            <li key={f} className="wrap-anywhere">
              {f}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
