// Resources of MCP servers, attached by "@" in the message box. What the server makes of an "@" that is left in a
// message is in resource.go.

import type { Resource } from "../api/client.ts";
import type { ResourceRef } from "../api/types.gen.ts";

/** The most resources of a message. */
export const mostAttached = 10;

/** The text after an "@", and its position. */
export interface Mention {
  from: number;
  to: number;
  typed: string;
}

const before = /[\s([{<"'`“‘«,;]/;

/** The mention that ends at the caret. Within a word, as in an email address, an "@" begins no mention. */
export function mentionAt(text: string, caret: number): Mention | undefined {
  const from = text.lastIndexOf("@", caret - 1);
  if (from < 0 || caret < 1) return undefined;
  const typed = text.slice(from + 1, caret);
  const next = text[caret];
  if (/\s/.test(typed) || (from > 0 && !before.test(text[from - 1] ?? "")) || (next !== undefined && !/\s/.test(next))) return undefined;
  return { from, to: caret, typed };
}

/** The text without a mention, and the caret's new position. */
export function without(text: string, m: Mention): { text: string; caret: number } {
  const rest = text.slice(m.to);
  const gap = m.from === 0 || /\s/.test(text[m.from - 1] ?? "");
  return { text: text.slice(0, m.from) + (gap ? rest.replace(/^ /, "") : rest), caret: m.from };
}

/** The resources with the typed text in their name, server or URI. Those whose name begins with it come first. */
export function offered(typed: string, all: readonly Resource[], have: readonly ResourceRef[]): Resource[] {
  const t = typed.toLowerCase();
  const rank = (r: Resource): number => {
    const whole = `${r.server}:${r.uri}`.toLowerCase();
    const name = r.name.toLowerCase();
    if (name.startsWith(t)) return 0;
    if (whole.startsWith(t)) return 1;
    return name.includes(t) || whole.includes(t) ? 2 : 3;
  };
  return all
    .filter((r) => r.template || !isAmong(r, have))
    .map((r) => [rank(r), r] as const)
    .filter(([n]) => n < 3)
    .sort(([a], [b]) => a - b)
    .map(([, r]) => r);
}

export const isAmong = (r: ResourceRef, list: readonly ResourceRef[]): boolean => list.some((a) => a.server === r.server && a.uri === r.uri);

/** The name of a resource of which only the URI is known: the URI's last part. */
export function nameIn(uri: string): string {
  const last = uri.replace(/[?#].*$/, "").replace(/\/+$/, "").split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(last) || uri;
  } catch {
    return last || uri;
  }
}

const expression = /\{([+#./;?&]?)([^{}]*)\}/g;

/** The names in a template that need values, each once. */
export function valuesOf(template: string): string[] {
  const names = [...template.matchAll(expression)].flatMap((m) => (m[2] ?? "").split(","));
  return [...new Set(names.map(nameOf).filter((n) => n !== ""))];
}

const nameOf = (spec: string): string => spec.replace(/(\*|:\d+)$/, "").trim();

/** The URI of a template (RFC 6570) with these values, which are texts. Names without a value are left out. */
export function expanded(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(expression, (_, op: string, list: string) => {
    const open = op === "+" || op === "#";
    const encode = (v: string) => (open ? encodeURI(v) : encodeURIComponent(v).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`));
    const parts = list.split(",").flatMap((spec) => {
      const name = nameOf(spec);
      const cut = Number(/:(\d+)$/.exec(spec)?.[1] ?? Infinity);
      const value = [...(values[name] ?? "")].slice(0, cut).join("");
      if (value === "") return [];
      return op === ";" || op === "?" || op === "&" ? `${name}=${encode(value)}` : encode(value);
    });
    if (parts.length === 0) return "";
    const between = op === "" || open ? "," : op === "?" ? "&" : op;
    return (op === "+" ? "" : op) + parts.join(between);
  });
}
