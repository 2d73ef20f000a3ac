// Code in its colours, as parts with a class each. What it costs is limited: beyond it the code stays as it is.

import type { Parser, Tree } from "@lezer/common";
import { highlightTree, tagHighlighter, tags as t } from "@lezer/highlight";

import { loadLanguage } from "./languages.ts";

/** Characters that are highlighted, and how long reading them may take, in ms. What is beyond has no colours. */
export const most = 60_000;
const time = 120;

export interface Part {
  text: string;
  /** "" for what has no colour. */
  kind: string;
}

/** What has a colour of its own. The editor uses the same. */
export const kinds = [
  { tag: [t.comment, t.meta, t.processingInstruction, t.documentMeta], class: "code-comment" },
  { tag: [t.keyword, t.modifier, t.operatorKeyword, t.controlKeyword, t.self, t.atom, t.bool, t.null], class: "code-keyword" },
  { tag: [t.string, t.special(t.string), t.regexp, t.character, t.attributeValue, t.inserted, t.escape], class: "code-string" },
  { tag: [t.number, t.color, t.unit, t.literal], class: "code-number" },
  { tag: [t.function(t.variableName), t.function(t.propertyName), t.definition(t.function(t.variableName)), t.macroName, t.labelName, t.heading], class: "code-name" },
  { tag: [t.typeName, t.className, t.namespace, t.tagName, t.annotation], class: "code-type" },
  { tag: [t.propertyName, t.attributeName, t.definition(t.propertyName)], class: "code-property" },
  { tag: [t.link, t.url], class: "code-link" },
  { tag: [t.deleted, t.invalid], class: "code-deleted" },
] as const;

const highlighter = tagHighlighter(kinds.map((k) => ({ tag: [...k.tag], class: k.class })));

/** The parts of a code in a language. Rejects if its grammar cannot be loaded. */
export async function highlighted(code: string, language: string): Promise<Part[]> {
  const { language: l } = await loadLanguage(language);
  const start = code.slice(0, most);
  const parts: Part[] = [];
  let at = 0;
  const add = (to: number, kind: string) => {
    if (to > at) parts.push({ text: start.slice(at, to), kind });
    at = Math.max(at, to);
  };
  try {
    highlightTree(parsed(l.parser, start), highlighter, (from, to, kind) => {
      add(from, "");
      add(to, kind);
    });
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    return [{ text: code, kind: "" }]; // nested deeper than the stack allows
  }
  add(start.length, "");
  if (code.length > most) parts.push({ text: code.slice(most), kind: "" });
  return parts;
}

/** The tree of a code, as far as it can be read in time. */
function parsed(parser: Parser, code: string): Tree {
  const reading = parser.startParse(code);
  const end = performance.now() + time;
  for (;;) {
    const tree = reading.advance();
    if (tree) return tree;
    if (reading.stoppedAt === null && performance.now() > end) reading.stopAt(reading.parsedPos);
  }
}
