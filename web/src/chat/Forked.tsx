import { useState, type ReactNode } from "react";

import { Dialog } from "../ui/dialog.tsx";
import { Eye } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { useChat, useParent } from "./use-chat.ts";

/** The place in a fork up to which it is a copy. */
export function ForkedHere() {
  const readOnly = useChat((s) => s.opened.records.readOnly);
  return (
    <p data-forked className="my-2 rounded-lg border border-dashed border-border px-3 py-2 text-center text-sm text-balance wrap-anywhere text-text-muted">
      Up to here this is a copy of <Origin />.{readOnly && " Files are read in this fork, and not changed."}
    </p>
  );
}

/** A link to the conversation that a fork is a copy of. */
function Origin({ onFollow }: { onFollow?: () => void }) {
  const parent = useParent();
  if (!parent) return "another conversation";
  const { href, title } = parent;
  return (
    <a href={href} onClick={onFollow} className="reach text-link underline underline-offset-2">
      {title === "" ? "another conversation" : `“${oneLine(title, 60)}”`}
    </a>
  );
}

/** Says that the files of the open conversation cannot be changed in it, and why; nothing where they can. */
export function ReadOnly({ className }: { className: string }) {
  const readOnly = useChat((s) => s.opened.records.readOnly);
  const fork = useChat((s) => s.opened.records.parent !== "");
  const [open, setOpen] = useState(false);
  if (!readOnly) return null;
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)} className={`${className} text-link`}>
        <Eye size={14} />
        Files read-only
      </button>
      {open && (
        <Dialog title="Files are read-only here" onClose={close}>
          <div className="flex flex-col gap-2 text-sm">
            {fork ? (
              <>
                <Line>This conversation is a fork of <Origin onFollow={close} />. Both work in the same folder. The fork reads its files and changes none, so that the two do not overwrite each other’s work.</Line>
                <Line>What is to be changed is changed in the conversation that it was forked from.</Line>
              </>
            ) : (
              <Line>The folder of this conversation is read and not changed. Whoever runs the server has set it so.</Line>
            )}
          </div>
        </Dialog>
      )}
    </>
  );
}

const Line = ({ children }: { children: ReactNode }) => <p className="wrap-anywhere">{children}</p>;
