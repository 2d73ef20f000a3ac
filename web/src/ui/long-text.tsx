import { useMemo, useState } from "react";

import { tame } from "./tame.ts";
import { count } from "./text.ts";

/** Characters shown at first, and per element: laying out a single long element is disproportionately slow. */
const portion = 20_000;

/** How many portions are added at a time. */
const more = 5;

/** A plain text of any length: its beginning, and more on request. */
export function LongText({ text, className = "" }: { text: string; className?: string }) {
  const [shown, setShown] = useState(1);
  const parts = useMemo(() => portions(text, shown), [text, shown]);
  const drawn = parts.reduce((sum, p) => sum + p.length, 0);
  return (
    <>
      {parts.map((p, i) => (
        <span key={i} className={parts.length > 1 ? `block ${className}` : className}>
          {parts.length > 1 ? p.replace(/\n$/, "") : p}
        </span>
      ))}
      {drawn < text.length && (
        <button
          type="button"
          onClick={() => setShown(shown + more)}
          className="mt-1 block font-sans text-sm text-text-muted underline underline-offset-2 hover:text-text-primary"
        >
          Show more: {count(drawn)} of {count(text.length)} characters are shown
        </button>
      )}
    </>
  );
}

/**
 * A text among others: its beginning, and on request (or if something in it must be visible) all
 * of it, or the original it was made from.
 */
export function Folded({ text, longest, original, needed = false }: { text: string; longest: number; original?: string; needed?: boolean }) {
  const [all, setAll] = useState(needed);
  const [before, setBefore] = useState(needed);
  if (needed !== before) {
    setBefore(needed);
    if (needed) setAll(true);
  }
  const shown = tame(text);
  if (shown.length <= longest) return shown;
  return (
    <>
      {all ? <LongText text={original === undefined ? shown : tame(original)} /> : `${shown.slice(0, whole(shown, longest))}…`}{" "}
      <button type="button" aria-expanded={all} onClick={() => setAll(!all)} className="underline underline-offset-2 hover:text-text-primary">
        {all ? "show less" : "show all"}
      </button>
    </>
  );
}

/** The first portions of a text, each up to a line break if possible. */
function portions(text: string, most: number): string[] {
  if (text.length <= portion) return [text];
  const parts: string[] = [];
  let at = 0;
  while (at < text.length && parts.length < most) {
    const end = Math.min(text.length, at + portion);
    const line = text.lastIndexOf("\n", end - 1) + 1;
    const to = end < text.length && line > at + portion / 2 ? line : whole(text, end);
    parts.push(text.slice(at, to));
    at = to;
  }
  return parts;
}

/** The nearest position that does not split a character. */
const whole = (text: string, at: number): number => (at < text.length && /[\udc00-\udfff]/.test(text[at] ?? "") ? at - 1 : at);
