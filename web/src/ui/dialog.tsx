import { useEffect, useId, useRef, type ReactNode } from "react";

import { IconButton } from "./button.tsx";
import { Close } from "./icons.tsx";

interface Props {
  title: string;
  children: ReactNode;
  onClose(): void;
  /** At the right side of the window, in full height. */
  side?: boolean;
  /** As wide as the window allows; at the side, wider than a list needs. */
  wide?: boolean;
  /** The content has its own padding and scrolls by itself. */
  flush?: boolean;
  /** The content has a header of its own. */
  bare?: boolean;
}

/** A window over the page. The browser's own dialog keeps the focus inside, closes on Esc and restores the focus. */
export function Dialog({ title, children, onClose, side = false, wide = false, flush = false, bare = false }: Props) {
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
      onClose={(e) => e.target === e.currentTarget && onClose()} // not when one that was opened from it closes
      onKeyDown={(e) => e.key === "Escape" && e.stopPropagation()}
      onClick={(e) => e.target === e.currentTarget && onClose()}
      className={`border-border bg-bg p-0 font-sans text-[1rem] leading-[1.6] text-text-primary backdrop:bg-black/60 ${
        side
          ? `fixed inset-y-0 right-0 left-auto m-0 h-full max-h-none ${wide ? "w-[min(48rem,100vw)]" : "w-[min(30rem,100vw)]"} max-w-none border-l`
          : `m-auto max-h-[calc(100dvh-2rem)] ${wide ? "w-[min(64rem,calc(100vw-2rem))]" : "w-[min(40rem,calc(100vw-2rem))]"} rounded-xl border`
      }`}
    >
      <div className={`flex flex-col ${side ? "h-full" : "max-h-[calc(100dvh-2rem)]"}`}>
        {bare && <span id={name} className="sr-only">{title}</span>}
        {!bare && <header className="flex h-13 shrink-0 items-center justify-between gap-3 border-b border-border pr-2 pl-4">
          <h2 id={name} className="text-sm font-semibold">
            {title}
          </h2>
          <IconButton label="Close" onClick={onClose}>
            <Close />
          </IconButton>
        </header>}
        {bare ? (
          <div className="min-h-0 flex-1">{children}</div>
        ) : flush ? (
          <div className="min-h-0 flex-1 pt-3">{children}</div>
        ) : (
          // The scrolling element takes the focus, so that the keyboard can scroll it.
          <div role="region" aria-labelledby={name} tabIndex={0} className="relative min-h-0 flex-1 overflow-y-auto p-4 max-sm:p-3">
            {children}
          </div>
        )}
      </div>
    </dialog>
  );
}
