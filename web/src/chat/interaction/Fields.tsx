import { useState } from "react";

import { LongText } from "../../ui/long-text.tsx";
import { tameCode } from "../../ui/tame.ts";
import { count } from "../../ui/text.ts";
import type { Field } from "./logic.ts";

/** Lines shown before the reader asks for all. */
const most = 100;

/**
 * A call's input exactly as it will be used, one line per field. Characters that hide or reverse
 * text are shown as their code points.
 */
export function Fields({ fields }: { fields: readonly Field[] }) {
  const [all, setAll] = useState(false);
  if (fields.length === 0) return null;
  const shown = all ? fields : fields.slice(0, most);
  return (
    <dl className="grid grid-cols-[minmax(0,auto)_minmax(0,1fr)] gap-x-4 gap-y-1 rounded-lg border border-border bg-bg px-3.5 py-2.5 font-mono text-[13px] leading-5 max-sm:px-2.5 max-sm:text-xs max-sm:leading-5">
      {shown.map((f) => (
        // On a phone a value that does not fit beside its name has the next lines for itself.
        <div key={f.name} className="contents max-sm:col-span-2 max-sm:flex max-sm:flex-wrap max-sm:gap-x-3">
          {f.name !== "" && <dt className="wrap-anywhere text-text-muted max-sm:min-w-18">{tameCode(f.name)}</dt>}
          <dd className={`wrap-anywhere whitespace-pre-wrap ${f.name === "" ? "col-span-2" : ""} ${f.block ? "max-h-60 overflow-y-auto" : ""}`}>
            <LongText text={tameCode(f.value)} />
          </dd>
        </div>
      ))}
      {shown.length < fields.length && (
        <button type="button" onClick={() => setAll(true)} className="col-span-2 text-left underline underline-offset-2">
          Show all {count(fields.length)} lines
        </button>
      )}
    </dl>
  );
}
