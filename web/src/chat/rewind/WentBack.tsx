import type { RewindView } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { doneText } from "./words.ts";

interface Props {
  rewind: RewindView;
  /** Nothing was said since. */
  last?: boolean;
  /** Undefined: it cannot be undone now. */
  onUndo?: (() => void) | undefined;
}

/** The place in a conversation where it, or its files, went back. It stays there, so that this can be undone later, too. */
export function WentBack({ rewind, last = false, onUndo }: Props) {
  return (
    <p
      {...(last && { role: "status" })}
      data-rewound
      className="my-2 flex flex-wrap items-center justify-center gap-x-3 rounded-lg border border-dashed border-border px-3 py-1.5 text-sm text-text-muted"
    >
      {doneText(rewind)}
      {onUndo && (
        <Button kind="quiet" aria-label="Undo going back" className="h-8! [@media(pointer:coarse)]:h-11!" onClick={onUndo}>
          Undo
        </Button>
      )}
    </p>
  );
}
