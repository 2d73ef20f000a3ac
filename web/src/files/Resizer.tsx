import { useState, type KeyboardEvent, type PointerEvent } from "react";

const key = "parley.files.width";
const [least, most, usual] = [360, 1100, 560];

const within = (n: number): number => Math.round(Math.max(least, Math.min(most, n)));

/** The width of the file beside the chat, as it was left. */
export function useWidth(): [number, (width: number) => void] {
  const [width, setWidth] = useState(() => {
    try {
      return within(Number(localStorage.getItem(key)) || usual);
    } catch {
      return usual;
    }
  });
  return [
    width,
    (w) => {
      setWidth(within(w));
      try {
        localStorage.setItem(key, String(within(w)));
      } catch {
        // It holds until the page is closed.
      }
    },
  ];
}

/** The line between the chat and the file: dragged, or moved by the arrow keys. */
export function Resizer({ width, onWidth }: { width: number; onWidth(width: number): void }) {
  const drag = (e: PointerEvent<HTMLDivElement>) => {
    if (!e.currentTarget.hasPointerCapture(e.pointerId)) return;
    onWidth(innerWidth - e.clientX);
  };
  const press = (e: KeyboardEvent) => {
    const by = { ArrowLeft: 32, ArrowRight: -32, Home: most, End: -most }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    onWidth(width + by);
  };
  return (
    <div
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the file"
      aria-valuemin={least}
      aria-valuemax={most}
      aria-valuenow={width}
      tabIndex={0}
      onKeyDown={press}
      onPointerDown={(e) => e.currentTarget.setPointerCapture(e.pointerId)}
      onPointerMove={drag}
      onDoubleClick={() => onWidth(usual)}
      className="relative w-px shrink-0 cursor-col-resize touch-none bg-border outline-offset-0 after:absolute after:inset-y-0 after:-left-1.5 after:w-3 hover:bg-accent focus-visible:bg-accent"
    />
  );
}
