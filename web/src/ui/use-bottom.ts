import { useCallback, useEffect, useRef, useState } from "react";

/** A reader within this many pixels of the end counts as being there. */
const near = 64;

/** Pixels at the end of the visible part that a button for the end, and the room around it, take. */
const taken = 64;

/** The scroll position of a list. */
export interface Place {
  top: number;
  /** Height of the content. */
  height: number;
  /** Height of the visible part. */
  seen: number;
}

/**
 * Whether the end is still followed after a scroll. Only a reader moves up: growing content
 * leaves the position, which is then further from the end, and shrinking content moves it by
 * itself.
 */
export function follows(was: Place, is: Place, followed: boolean): boolean {
  if (is.height - is.top - is.seen < near) return true;
  if (is.top >= was.top) return followed;
  return followed && was.top - is.top <= was.height - is.height + Math.max(0, is.seen - was.seen);
}

/** Whether something lies where a button for the end would cover it; the numbers are edges in the window. */
export const covers = (view: { bottom: number }, it: { top: number; bottom: number }): boolean => it.top < view.bottom && it.bottom > view.bottom - taken;

/**
 * Keeps a growing list scrolled to its end as long as its reader is there, and never moves a
 * reader who has scrolled up. beneath: the last thing that the selector finds is where a button for the end would be.
 */
export function useBottom(selector: string) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const place = useRef<Place>({ top: 0, height: 0, seen: 0 });
  const [away, setAway] = useState(false);
  const [beneath, setBeneath] = useState(false);

  const toEnd = useCallback((smooth = false) => {
    const b = box.current;
    if (!b) return;
    stuck.current = true;
    setAway(false);
    // A long distance is not animated.
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
    const last = stuck.current ? undefined : [...b.querySelectorAll(selector)].at(-1);
    setBeneath(last !== undefined && covers(b.getBoundingClientRect(), last.getBoundingClientRect()));
  }, [selector]);

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
    // A reader who unfolds something wants to see it, not the end of the list.
    const unfolds = (e: MouseEvent) => {
      if (e.target instanceof Element && e.target.closest("[aria-expanded=false]")) stuck.current = false;
    };
    c.addEventListener("click", unfolds, true);
    return () => {
      grown.disconnect();
      c.removeEventListener("click", unfolds, true);
    };
  }, [onScroll]);

  return { box, content, away, beneath, toEnd, onScroll };
}
