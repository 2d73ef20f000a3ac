import { useMemo } from "react";

import type { FileSaved } from "../../api/types.gen.ts";
import { readPatch } from "../../ui/diff/diff.ts";
import DiffView from "../../ui/diff/DiffView.tsx";
import { oneLine } from "../../ui/tame.ts";

/** The changes of a file, one after another, as the log has them. */
export default function Patches({ saved }: { saved: readonly FileSaved[] }) {
  return (
    <div className="border-t border-border">
      {saved.map((f, i) => (
        <div key={i} className="border-t border-border first:border-t-0">
          {saved.length > 1 && <p className="bg-surface px-3.5 py-1 text-xs text-text-muted">{`Change ${i + 1} of ${saved.length}`}</p>}
          <Patch file={f} />
        </div>
      ))}
    </div>
  );
}

function Patch({ file: f }: { file: FileSaved }) {
  const diff = useMemo(() => readPatch(f.diff ?? ""), [f]);
  if (diff) return <DiffView diff={diff} name={oneLine(f.path, 120)} />;
  return <p className="px-3.5 py-2.5 text-text-muted">{(f.added ?? 0) + (f.removed ?? 0) > 0 ? "This change is too large to be shown here." : f.diff === undefined && f.before !== f.after ? "How it changed is not in the log: it is no text, or too large." : "Nothing in it differs."}</p>;
}
