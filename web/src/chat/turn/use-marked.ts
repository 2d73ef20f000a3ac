import { useEffect, useRef } from "react";

/** A text to show in a line of the log. */
export interface Wanted {
  text: string;
  /** The occurrence after this text is meant. */
  about?: string;
  wish: number;
}

/** Marks a text inside an element and scrolls it into view. */
export function useMarked(wanted: Wanted | undefined) {
  const row = useRef<HTMLLIElement>(null);
  const wish = wanted?.wish;
  useEffect(() => {
    const r = row.current;
    if (!wanted || !r) return;
    let marked: Highlight | undefined;
    // After it is unfolded.
    const later = requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        r.focus({ preventScroll: true });
        const range = rangeIn(r, wanted);
        const box = r.closest("[role=region]");
        const at = (range ?? r).getBoundingClientRect();
        if (box) {
          const seen = box.getBoundingClientRect();
          box.scrollBy({ top: at.top - seen.top - seen.height / 3, behavior: "instant" });
        }
        if (range && "highlights" in CSS) CSS.highlights.set("evidence", (marked = new Highlight(range)));
      }),
    );
    return () => {
      cancelAnimationFrame(later);
      if (marked && CSS.highlights.get("evidence") === marked) CSS.highlights.delete("evidence");
    };
  }, [wish]);
  return row;
}

function rangeIn(element: Element, { text, about }: Wanted): Range | undefined {
  const all = element.textContent ?? "";
  const start = about ? Math.max(0, all.indexOf(about)) : 0;
  let at = all.indexOf(text, start);
  if (at < 0) at = all.indexOf(text);
  if (at < 0) return undefined;
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let before = 0;
  let begun = false;
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const length = n.textContent?.length ?? 0;
    if (!begun && at < before + length) {
      range.setStart(n, at - before);
      begun = true;
    }
    if (begun && at + text.length <= before + length) {
      range.setEnd(n, at + text.length - before);
      return range;
    }
    before += length;
  }
  return undefined;
}
