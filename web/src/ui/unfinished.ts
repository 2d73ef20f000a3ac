// Markdown that is still being written: an opening mark without its end would be visible for a
// moment and then disappear.

import remend from "remend";

/** A growing text in displayable form: open marks are closed, and an ambiguous end is held back. */
export function finished(text: string): string {
  const lines = text.split("\n");
  // A line of marks alone may become a list, a heading, a rule, or a table's second line.
  while (lines.length > 0 && /^[\s>]*(?:[-+*#=_~`|:.\s]*|\d{1,9}[.)]?\s*)$/.test(lines.at(-1) ?? "") && !closesFence(lines)) lines.pop();
  const from = lines.findLastIndex((l) => l.trim() === "") + 1;
  if (isHead(lines.slice(from))) lines.length = from;
  // Marks at the very end may open something or close it: what they would close is closed below.
  const shown = closesFence(lines) ? lines.join("\n") : lines.join("\n").replace(/[*_~`[\]!(]+$/, "");
  return closed(shown);
}

/** A text that was cut off for good: open marks are closed, and nothing is left out. */
export const closed = (text: string): string => remend(text, { linkMode: "text-only", katex: false });

/** Whether these lines may be the head of a table whose second line is incomplete. */
function isHead([head = "", rule, ...rows]: readonly string[]): boolean {
  if (!/^\s*\|/.test(head) || rows.length > 0) return false;
  const cells = (line: string) => line.trim().replace(/^\||\|$/g, "").split("|").length;
  return rule === undefined || (/^[\s|:-]*$/.test(rule) && cells(rule) < cells(head));
}

/** Whether the last line closes a block of code. A line that opens one shows nothing yet. */
function closesFence(lines: readonly string[]): boolean {
  const fences = lines.filter((l) => /^\s*(?:```|~~~)/.test(l)).length;
  return /^\s*(?:```+|~~~+)\s*$/.test(lines.at(-1) ?? "") && fences % 2 === 0;
}
