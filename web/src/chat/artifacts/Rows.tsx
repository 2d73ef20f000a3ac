import { useState } from "react";

import { count } from "../../ui/text.ts";
import { most, type Table } from "./csv.ts";

/** Rows that are shown at first. */
const first = 12;

/** A table: its first rows, and more on request. tall: it takes the room that there is. */
export function Rows({ table: t, name, tall = false }: { table: Table; name: string; tall?: boolean }) {
  const [all, setAll] = useState(false);
  const [head = [], ...rows] = t.rows;
  const shown = all ? rows : rows.slice(0, tall ? 200 : first);
  const beyond = t.total - t.rows.length;
  const numbers = head.map((_, k) => rows.length > 0 && rows.every((row) => (row[k] ?? "") === "" || isNumber(row[k])));
  if (t.rows.length === 0) return <p className="px-3.5 py-3 text-sm text-text-muted">The table is empty.</p>;
  return (
    <>
      <div role="region" aria-label={`Table ${name}`} tabIndex={0} className={tall ? "overflow-x-auto" : "max-h-[28rem] overflow-auto"}>
        <table className="w-full border-collapse text-left text-[13px] leading-5">
          <thead>
            <tr>
              {head.map((cell, i) => (
                <th key={i} scope="col" dir="auto" className={`sticky top-0 border-b border-border bg-surface px-3.5 py-1.5 font-medium whitespace-nowrap ${numbers[i] ? "text-right" : ""}`}>
                  {cell || <span className="sr-only">Column {i + 1}</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, i) => (
              <tr key={i} className="border-b border-border last:border-0">
                {head.map((_, k) => (
                  <td key={k} dir="auto" className={`max-w-80 px-3.5 py-1.5 align-top wrap-anywhere ${numbers[k] ? "text-right tabular-nums" : "min-w-24"}`}>
                    {row[k] ?? ""}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(rows.length > shown.length || beyond > 0 || t.cut) && (
        <p className="border-t border-border px-3.5 py-1.5 text-xs text-text-muted">
          {rows.length > shown.length && (
            <button type="button" onClick={() => setAll(true)} className="mr-2 inline-flex min-h-8 items-center underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
              Show {count(rows.length)} rows
            </button>
          )}
          {beyond > 0 && `The table has ${count(t.total - 1)} rows. `}
          {(beyond > 0 || t.cut) && `At most ${count(most.rows)} rows and ${most.columns} columns are shown; the download has everything.`}
        </p>
      )}
    </>
  );
}

const isNumber = (cell: string | undefined): boolean => /^[-+]?\d[\d,.\s]*%?$/.test(cell ?? "");
