// Characters that act on more than themselves. In a text from outside they may hide what
// it says, or draw over what stands above it; as text they are harmless.

/** Those that turn the direction of whatever follows, against its letters. */
const overrides = /[\u202d\u202e]/g;
/** All that set a direction: in code they make it read otherwise than it runs. */
const directions = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** More marks on one letter than any script needs reach into other lines. */
const stacked = /(\p{M}{8})\p{M}+/gu;

const named = (c: string): string => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** A text as it is shown: what it looks like is what it says. */
export const tame = (text: string): string => text.replace(/\r\n?/g, "\n").replace(overrides, named).replace(stacked, "$1");

export const tameCode = (text: string): string => tame(text).replace(directions, named);

/** A text in one line: no longer than most characters, and not of characters that nobody sees. */
export function oneLine(text: string, most: number): string {
  const start = text.slice(0, most * 4).replace(/[\s\p{Cf}\p{Cc}\u115f\u1160\u3164\u2800]+/gu, (run) => (/\u200d/.test(run) ? run : /^\p{Cf}+$/u.test(run) ? "" : " "));
  const line = [...tame(start).trim()];
  return line.length <= most && text.length <= most * 4 ? line.join("") : `${line.slice(0, most - 1).join("")}…`;
}
