// Characters that affect more than themselves. In a foreign text they may hide its content or
// draw over the lines above; replaced by visible text they are harmless.

/** Characters that reverse the direction of the following text. */
const overrides = /[\u202d\u202e]/g;
/** All characters that set a direction: they make code read differently from how it runs. */
const directions = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** More marks on one letter than any script needs; they reach into other lines. */
const stacked = /(\p{M}{8})\p{M}+/gu;

const named = (c: string): string => `[U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`;

/** A text as it is shown: it looks like what it says. */
export const tame = (text: string): string => text.replace(/\r\n?/g, "\n").replace(overrides, named).replace(stacked, "$1");

export const tameCode = (text: string): string => tame(text).replace(directions, named);

/** A text in one line, limited in length and without invisible characters. */
export function oneLine(text: string, most: number): string {
  const start = text.slice(0, most * 4).replace(/[\s\p{Cf}\p{Cc}\u115f\u1160\u3164\u2800]+/gu, (run) => (/\u200d/.test(run) ? run : /^\p{Cf}+$/u.test(run) ? "" : " "));
  const line = [...tame(start).trim()];
  return line.length <= most && text.length <= most * 4 ? line.join("") : `${line.slice(0, most - 1).join("")}…`;
}
