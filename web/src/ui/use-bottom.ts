import { useCallback, useEffect, useRef, useState } from "react";

/** Within this many pixels of the end a reader counts as being there. */
const near = 64;

/** Where a scrolled list is. */
export interface Place {
  top: number;
  /** Of all that it holds. */
  height: number;
  /** Of what is seen of it. */
  seen: number;
}

/**
 * Whether the end is still followed after a scroll. Only a reader moves up: what
 * grows leaves the place where it is, further from the end than before, and what
 * shrinks moves it by itself.
 */
export function follows(was: Place, is: Place, followed: boolean): boolean {
  if (is.height - is.top - is.seen < near) return true;
  if (is.top >= was.top) return followed;
  return followed && was.top - is.top <= was.height - is.height + Math.max(0, is.seen - was.seen);
}

/**
 * Keeps a scrolled list at its end while it grows, as long as its reader is
 * there, and never moves one who reads further up.
 */
export function useBottom() {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const place = useRef<Place>({ top: 0, height: 0, seen: 0 });
  const [away, setAway] = useState(false);

  const toEnd = useCallback((smooth = false) => {
    const b = box.current;
    if (!b) return;
    stuck.current = true;
    setAway(false);
    // A long way is not worth watching.
    const far = b.scrollHeight - b.scrollTop > 4 * b.clientHeight;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    b.scrollTo({ top: b.scrollHeight, behavior: smooth && !far && !still ? "smooth" : "instant" });
  }, []);

  const onScroll = useCallback(() => {
    const b = box.current;
    if (!b) return;
    const now = { top: b.scrollTop, height: b.scrollHeight, seen: b.clientHeight };
    stuck.current = follows(place.current, now, stuck.current);
    place.current = now;
    setAway(!stuck.current);
  }, []);

  useEffect(() => {
    const b = box.current;
    const c = content.current;
    if (!b || !c) return;
    const grown = new ResizeObserver(() => {
      if (stuck.current) b.scrollTop = b.scrollHeight;
      else onScroll();
    });
    grown.observe(c);
    grown.observe(b);
    // Who unfolds something wants to see it, and not the end that it pushes away.
    const unfolds = (e: MouseEvent) => {
      if (e.target instanceof Element && e.target.closest("[aria-expanded=false]")) stuck.current = false;
    };
    c.addEventListener("click", unfolds, true);
    return () => {
      grown.disconnect();
      c.removeEventListener("click", unfolds, true);
    };
  }, [onScroll]);

  return { box, content, away, toEnd, onScroll };
}
