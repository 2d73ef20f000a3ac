// Parts of a text that lead somewhere, such as figures that lead to their source. The page
// decides which; the Markdown tree is split at these parts.

import { createContext } from "react";

/** A part of a text, and the action of a click on it. */
export interface Lead {
  from: number;
  to: number;
  open(): void;
}

/** Finds leads in the text of a paragraph, a heading or a row. */
export const LeadsContext = createContext<((text: string) => readonly Lead[]) | undefined>(undefined);

interface Node {
  type: string;
  value?: string;
  children?: Node[];
  url?: string;
  data?: unknown;
}

interface Segment {
  node: Node;
  parent: Node;
  from: number;
}

const blocks = new Set(["paragraph", "heading", "tableRow"]);

/** Turns leads into links; found receives their actions, by number. */
export function leadsPlugin(find: (text: string) => readonly Lead[], found: Lead[]): () => (tree: unknown) => void {
  const visit = (node: Node): void => {
    if (!blocks.has(node.type)) {
      for (const c of node.children ?? []) visit(c);
      return;
    }
    const segments: Segment[] = [];
    const text = flatten(node, segments, "");
    const leads = find(text);
    if (leads.length === 0) return;
    const first = found.length;
    found.push(...leads);
    for (const s of segments) cutAt(s, leads, first);
  };
  return () => (tree) => visit(tree as Node);
}

function flatten(node: Node, segments: Segment[], text: string): string {
  for (const c of node.children ?? []) {
    if (c.type === "text" || c.type === "inlineCode") {
      segments.push({ node: c, parent: node, from: text.length });
      text += c.value ?? "";
    } else if (c.type === "break") text += "\n";
    else if (c.type !== "link" && c.type !== "linkReference" && c.type !== "image") text = flatten(c, segments, text);
    if (node.type === "tableRow") text += " ";
  }
  return text;
}

function cutAt({ node, parent, from }: Segment, leads: readonly Lead[], first: number): void {
  const value = node.value ?? "";
  const end = from + value.length;
  const over = leads.map((l, i) => ({ l, i: first + i })).filter(({ l }) => l.from < end && l.to > from);
  if (over.length === 0) return;
  const link = (i: number, child: Node): Node => ({ type: "link", url: "#", children: [child], data: { hProperties: { "data-lead": String(i) } } });
  const parts: Node[] = [];
  if (node.type === "inlineCode") {
    parts.push(link(over[0]?.i ?? first, node));
  } else {
    let at = 0;
    for (const { l, i } of over) {
      const start = Math.max(l.from - from, at);
      const stop = Math.min(l.to - from, value.length);
      if (start > at) parts.push({ type: "text", value: value.slice(at, start) });
      if (stop > start) parts.push(link(i, { type: "text", value: value.slice(start, stop) }));
      at = Math.max(at, stop);
    }
    if (at < value.length) parts.push({ type: "text", value: value.slice(at) });
  }
  parent.children?.splice(parent.children.indexOf(node), 1, ...parts);
}
