// Links of a document to what is beside it. The page decides where they lead, and what a picture is; Markdown only finds them.

import { createContext, type ComponentType, type ReactNode } from "react";

/** A link that Markdown does not know. */
export interface Found {
  from: number;
  to: number;
  /** What Link or Picture gets. */
  href: string;
  words: string;
  embedded: boolean;
}

export interface DocLinks {
  found(text: string): readonly Found[];
  /** Links of Markdown with an address of their own scheme are not asked for. */
  Link: ComponentType<{ href: string; children: ReactNode }>;
  Picture: ComponentType<{ src: string; alt: string }>;
}

export const DocContext = createContext<DocLinks | undefined>(undefined);

interface Node {
  type: string;
  value?: string;
  children?: Node[];
  url?: string;
  alt?: string;
  data?: unknown;
}

/** Turns what was found in the texts of a document into links and pictures. */
export function docPlugin(found: DocLinks["found"]): () => (tree: unknown) => void {
  const visit = (node: Node): void => {
    if (!node.children || node.type === "link" || node.type === "linkReference") return;
    node.children = node.children.flatMap((c) => {
      if (c.type === "text") return cut(c.value ?? "", found(c.value ?? ""));
      visit(c);
      return [c];
    });
  };
  return () => (tree) => visit(tree as Node);
}

function cut(text: string, all: readonly Found[]): Node[] {
  if (all.length === 0) return [{ type: "text", value: text }];
  const parts: Node[] = [];
  let at = 0;
  for (const f of all) {
    if (f.from > at) parts.push({ type: "text", value: text.slice(at, f.from) });
    const data = { hProperties: { "data-doc": f.href } };
    parts.push(f.embedded ? { type: "image", url: "#", alt: f.words, data } : { type: "link", url: "#", children: [{ type: "text", value: f.words }], data });
    at = f.to;
  }
  if (at < text.length) parts.push({ type: "text", value: text.slice(at) });
  return parts;
}
