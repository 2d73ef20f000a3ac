import { createContext, use, useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

import { IconButton } from "./button.tsx";

const Close = createContext<() => void>(() => undefined);

/** The menu opens above its button if less room than this is below it. */
const roomNeeded = 190;

/**
 * A menu opened by an icon button, following the ARIA pattern: arrows, Home, End and first
 * letters move, Esc and Tab close. The browser's popover provides the top layer, closing on an
 * outside click, and restoring the focus.
 */
interface Props {
  label: string;
  icon: ReactNode;
  children: ReactNode;
  /** Text beside the icon; className then sets the button's style. */
  text?: ReactNode;
  className?: string;
  /** The edge of the button that the menu aligns with. */
  align?: "start" | "end";
}

export function Menu({ label, icon, children, text, className = "", align = "end" }: Props) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const close = () => list.current?.hidePopover();

  const place = () => {
    const b = button.current?.getBoundingClientRect();
    const l = list.current;
    if (!b || !l) return;
    const above = innerHeight - b.bottom < roomNeeded && b.top > roomNeeded;
    if (align === "start") l.style.left = `${Math.max(8, b.left)}px`;
    else l.style.right = `${Math.max(8, innerWidth - b.right)}px`;
    l.style.top = above ? "auto" : `${b.bottom + 4}px`;
    l.style.bottom = above ? `${innerHeight - b.top + 4}px` : "auto";
  };

  // It keeps its position, which is wrong once the window has another size.
  useEffect(() => {
    if (!open) return;
    const gone = () => list.current?.hidePopover();
    addEventListener("resize", gone);
    return () => removeEventListener("resize", gone);
  }, [open]);

  const opener = {
    ref: button,
    "aria-haspopup": "menu" as const,
    "aria-expanded": open,
    "aria-controls": id,
    popoverTarget: id,
    onKeyDown: (e: KeyboardEvent) => {
      if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
      e.preventDefault();
      list.current?.showPopover();
    },
  };

  return (
    <>
      {text === undefined ? (
        <IconButton label={label} {...opener}>
          {icon}
        </IconButton>
      ) : (
        <button type="button" aria-label={label} className={className} {...opener}>
          {icon}
          {text}
        </button>
      )}
      <div
        ref={list}
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        onBeforeToggle={(e) => e.newState === "open" && place()}
        onToggle={(e) => {
          setOpen(e.newState === "open");
          if (e.newState === "open") keepInside(list.current);
          if (e.newState === "open") (list.current?.querySelector<HTMLElement>('[aria-checked="true"]') ?? itemsOf(list.current)[0])?.focus();
        }}
        onKeyDown={(e) => {
          e.stopPropagation(); // Esc closes only the menu
          if (e.key === "Tab") close();
          else move(e);
        }}
        className="fixed inset-auto m-0 max-h-[min(26rem,70dvh)] min-w-40 overflow-y-auto rounded-xl border border-border bg-surface p-1 text-sm text-text-primary shadow-lg shadow-black/30"
      >
        <Close value={close}>{children}</Close>
      </div>
    </>
  );
}

const row = "flex h-9 w-full items-center gap-2.5 rounded-lg px-2.5 text-left outline-none focus:bg-hover hover:bg-hover [@media(pointer:coarse)]:h-11";

export function MenuItem({ icon, children, danger = false, onSelect }: { icon: ReactNode; children: ReactNode; danger?: boolean; onSelect(): void }) {
  const close = use(Close);
  return (
    <button
      type="button"
      role="menuitem"
      tabIndex={-1}
      className={`${row} ${danger ? "text-danger" : ""}`}
      onClick={() => {
        close();
        onSelect();
      }}
    >
      {icon}
      {children}
    </button>
  );
}

/** A line between groups of items. */
export function MenuLine() {
  return <div role="separator" className="mx-2.5 my-1 h-px bg-border" />;
}

/** disabled: it can be read, with its hint, and not chosen. */
export function MenuChoice({ icon, children, hint, chosen, disabled = false, onSelect }: { icon: ReactNode; children: ReactNode; hint?: string; chosen: boolean; disabled?: boolean; onSelect(): void }) {
  const close = use(Close);
  return (
    <button
      type="button"
      role="menuitemradio"
      aria-checked={chosen}
      aria-disabled={disabled}
      tabIndex={-1}
      className={`${hint ? `${row} h-auto! items-start! py-2` : row} ${disabled ? "cursor-not-allowed text-text-muted" : chosen ? "text-link" : ""}`}
      onClick={() => {
        if (disabled) return;
        close();
        onSelect();
      }}
    >
      {hint ? <span className="mt-0.5">{icon}</span> : icon}
      {hint ? (
        <span className="max-w-64">
          {children}
          <span className="block text-xs leading-4.5 text-text-muted">{hint}</span>
        </span>
      ) : (
        children
      )}
    </button>
  );
}

/** Moves a menu that would leave the window at its right edge. */
function keepInside(l: HTMLElement | null): void {
  if (!l || l.style.left === "") return;
  const wanted = parseFloat(l.style.left);
  l.style.left = "8px"; // with all the room it has its whole width
  l.style.left = `${Math.max(8, Math.min(wanted, innerWidth - 8 - l.offsetWidth))}px`;
}

const itemsOf = (list: HTMLElement | null): HTMLElement[] => [...(list?.querySelectorAll<HTMLElement>('[role^="menuitem"]') ?? [])];

function move(e: KeyboardEvent<HTMLElement>): void {
  const items = itemsOf(e.currentTarget);
  const at = items.indexOf(document.activeElement as HTMLElement);
  let to: number;
  if (e.key === "ArrowDown") to = (at + 1) % items.length;
  else if (e.key === "ArrowUp") to = (at - 1 + items.length) % items.length;
  else if (e.key === "Home") to = 0;
  else if (e.key === "End") to = items.length - 1;
  else if (e.key.length === 1 && e.key !== " ") {
    to = items.findIndex((item) => item.textContent?.toLowerCase().startsWith(e.key.toLowerCase()));
  } else return;
  e.preventDefault();
  items[to]?.focus();
}
