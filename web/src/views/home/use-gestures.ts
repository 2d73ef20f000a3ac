import { useEffect, useRef, type RefObject } from "react";

import { left } from "./Band.tsx";

interface Hands {
  span: { from: number; to: number };
  /** Width of the visible range in pixels. */
  inner: number;
  show(from: number, to: number): void;
  zoom(by: number, around?: number): void;
  zoomed: boolean;
  /** The wheel zooms without a key. */
  alone: boolean;
}

/**
 * Wheel, mouse and touch on a chart. Scrolling the page over a chart still works: the wheel
 * zooms only with Ctrl or ⌘ (as touchpads report a pinch), and a finger moving up or down
 * scrolls.
 */
export function useGestures(box: RefObject<HTMLElement | null>, hands: Hands): void {
  const now = useRef(hands);
  now.current = hands;
  useEffect(() => {
    const b = box.current;
    if (!b) return;
    const held = new Map<number, { x: number; y: number }>();
    const timeAt = (clientX: number) => {
      const { span, inner } = now.current;
      return span.from + ((clientX - b.getBoundingClientRect().left - left) / inner) * (span.to - span.from);
    };
    const perPixel = () => (now.current.span.to - now.current.span.from) / now.current.inner;

    const wheel = (e: WheelEvent) => {
      const { zoomed, alone, zoom, show, span } = now.current;
      if (e.ctrlKey || e.metaKey || (alone && Math.abs(e.deltaY) > Math.abs(e.deltaX))) {
        e.preventDefault();
        zoom(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) / 150), timeAt(e.clientX));
      } else if (zoomed && Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        show(span.from + e.deltaX * perPixel(), span.to + e.deltaX * perPixel());
      }
    };
    const down = (e: PointerEvent) => {
      if (e.pointerType !== "mouse" || e.button === 0) held.set(e.pointerId, { x: e.clientX, y: e.clientY });
    };
    const move = (e: PointerEvent) => {
      const was = held.get(e.pointerId);
      if (was === undefined) return;
      held.set(e.pointerId, { x: e.clientX, y: e.clientY });
      const { span, show, zoom, zoomed } = now.current;
      if (held.size === 2) {
        const other = [...held].find(([id]) => id !== e.pointerId)?.[1] ?? was;
        const before = Math.hypot(was.x - other.x, was.y - other.y);
        if (before > 8) zoom(Math.hypot(e.clientX - other.x, e.clientY - other.y) / before, timeAt((e.clientX + other.x) / 2));
      } else if (zoomed) {
        const by = (was.x - e.clientX) * perPixel();
        show(span.from + by, span.to + by);
      }
    };
    // Two fingers are handled here in every direction; otherwise the browser would scroll.
    const pinch = (e: TouchEvent) => {
      if (e.touches.length > 1) e.preventDefault();
    };
    const up = (e: PointerEvent) => held.delete(e.pointerId);
    const twice = (e: MouseEvent) => {
      const { zoom, zoomed, show } = now.current;
      if (zoomed) show(-Infinity, Infinity);
      else zoom(4, timeAt(e.clientX));
    };
    b.addEventListener("wheel", wheel, { passive: false });
    b.addEventListener("pointerdown", down);
    b.addEventListener("touchmove", pinch, { passive: false });
    b.addEventListener("dblclick", twice);
    addEventListener("pointermove", move);
    addEventListener("pointerup", up);
    addEventListener("pointercancel", up);
    return () => {
      b.removeEventListener("wheel", wheel);
      b.removeEventListener("pointerdown", down);
      b.removeEventListener("touchmove", pinch);
      b.removeEventListener("dblclick", twice);
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", up);
      removeEventListener("pointercancel", up);
    };
  }, [box]);
}
