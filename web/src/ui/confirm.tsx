import { useEffect, useId, useRef, type ReactNode } from "react";

import { Button } from "./button.tsx";

interface Props {
  title: string;
  children: ReactNode;
  action: string;
  onConfirm(): void;
  onClose(): void;
}

/**
 * Asks before something is lost. The browser's own dialog keeps the focus inside, closes on Esc
 * and restores the focus; the safe button is focused first.
 */
export function Confirm({ title, children, action, onConfirm, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    const d = dialog.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={name}
      onClose={onClose}
      onClick={(e) => e.target === e.currentTarget && onClose()}
      className="m-auto w-[min(26rem,calc(100vw-2rem))] rounded-xl border border-border bg-surface p-0 text-text-primary backdrop:bg-black/60"
    >
      <div className="p-5">
        <h2 id={name} className="text-base font-semibold">
          {title}
        </h2>
        <div className="mt-2 text-sm wrap-anywhere text-text-muted">{children}</div>
        <div className="mt-5 flex justify-end gap-2">
          <Button autoFocus onClick={onClose}>
            Cancel
          </Button>
          <Button
            kind="danger"
            onClick={() => {
              onConfirm();
              onClose();
            }}
          >
            {action}
          </Button>
        </div>
      </div>
    </dialog>
  );
}
