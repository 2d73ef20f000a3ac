import { use, useEffect, useState } from "react";

import type { EntityFault } from "../api/lakes.ts";
import { Alert } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { count, sentence } from "../ui/text.ts";
import { LakeContext } from "./lake-context.ts";

/** Faults that are listed before somebody asks for the rest. */
const few = 3;

/** What is wrong in an entity of a lake, with its lines. What cannot be checked is not said to be wrong. */
export function Faults({ path, version }: { path: string; version: string }) {
  const shown = use(LakeContext);
  const lake = shown?.lake;
  const [faults, setFaults] = useState<readonly EntityFault[]>([]);
  const [all, setAll] = useState(false);
  useEffect(() => setAll(false), [path]);
  useEffect(() => {
    if (!lake) return;
    const stop = new AbortController();
    const set = (list: readonly EntityFault[]) => stop.signal.aborted || setFaults(list);
    lake.at.faults(lake.space, path, "", stop.signal).then((got) => set(got.faults), () => set([]));
    return () => stop.abort();
  }, [lake, path, version]);
  if (!lake || faults.length === 0 || faults[0]?.path !== path) return null;
  return (
    <section aria-label="What is wrong in it" className="mx-auto max-w-[46rem] px-5 pt-4 text-sm">
      <div className="flex gap-2 rounded-lg border border-border bg-surface px-3.5 py-2.5">
        <span className="mt-0.5 shrink-0 text-link">
          <Alert size={14} />
        </span>
        <div className="min-w-0 flex-1">
          <ul className="flex flex-col gap-0.5 leading-5 wrap-anywhere">
            {(all ? faults : faults.slice(0, few)).map((f, i) => (
              <li key={i}>
                <span className="text-text-muted">Line {count(f.line)}:</span> {sentence(oneLine(f.message, 400))}
              </li>
            ))}
          </ul>
          {!all && faults.length > few && (
            <button type="button" onClick={() => setAll(true)} className="reach mt-1 text-xs text-text-muted underline underline-offset-2 hover:text-text-primary">
              Show all {count(faults.length)}
            </button>
          )}
        </div>
      </div>
    </section>
  );
}
