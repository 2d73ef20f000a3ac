// The confirmation of a write. What the card shows as the request is taken from the wire as it is written there, because
// that is what will be sent: a number that JavaScript would round stays as it is.

export type CardState =
  /** It waits for the person. */
  | "open"
  /** Confirmed; the outcome is not known yet. */
  | "sent"
  | "done"
  /** It was sent, and the API answered that it did not do it. */
  | "failed"
  /** The server did not send it. */
  | "refused"
  /** It may have been done or not. */
  | "unknown"
  | "expired"
  | "cancelled";

export interface Card {
  id: string;
  title: string;
  summary: string;
  method: string;
  path: string;
  /** The JSON of the body as it is on the wire; absent if there is none. */
  body?: string;
  state: CardState;
  /** Why it is in that state. */
  note?: string;
  /** When it expires, in ms; absent if not known. */
  expires?: number;
  /** Its outcome is not known, and this question about it waits. */
  asks?: string;
}

/** What a person can say about a write whose outcome is not known, as the server names it. */
export type Outcome = "happened" | "did_not";

export const saidOf: Readonly<Record<Outcome, string>> = { happened: "You have said that it was done.", did_not: "You have said that it was not done." };

export const isSettled = (s: CardState): boolean => s !== "open" && s !== "sent";

/** A growing text that may become a confirmation is not shown meanwhile. */
export const mayBeCard = (text: string): boolean => /^\s*\{/.test(text);

/** The confirmation that a text is, or undefined. */
export function cardOf(text: string): Card | undefined {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{")) return undefined;
  let object: Record<string, unknown>;
  try {
    object = JSON.parse(trimmed) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const { type, id, method, path } = object;
  if (type !== "confirm" || typeof id !== "string" || id === "" || typeof method !== "string" || typeof path !== "string") return undefined;
  const say = (v: unknown): string => (typeof v === "string" ? v : "");
  const body = rawOf(trimmed, "body");
  return { id, title: say(object["title"]), summary: say(object["summary"]), method: method.toUpperCase(), path, ...(body !== undefined && body !== "null" && { body }), state: "open" };
}

/** The text of a field of a JSON object; of one that is there twice the last, as JSON.parse has it. */
export const rawOf = (json: string, field: string): string | undefined => fieldsOf(json).get(field);

/** The fields of a JSON object, each as the text that it is. */
export function fieldsOf(json: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let at = json.indexOf("{") + 1;
  for (;;) {
    at = space(json, at);
    if (json[at] !== '"') return fields;
    const name = valueEnd(json, at);
    const from = space(json, space(json, name) + 1);
    const to = valueEnd(json, from);
    fields.set(JSON.parse(json.slice(at, name)) as string, json.slice(from, to));
    at = space(json, to);
    if (json[at] !== ",") return fields;
    at++;
  }
}

/** The values of a JSON array, each as the text that it is. */
function itemsOf(json: string): string[] {
  const items: string[] = [];
  for (let at = space(json, 1); at < json.length && json[at] !== "]"; ) {
    const to = valueEnd(json, at);
    items.push(json.slice(at, to));
    at = space(json, to);
    if (json[at] === ",") at = space(json, at + 1);
  }
  return items;
}

/**
 * The request of a tool's input {method, path, query, body, title, summary}, which is the JSON of that input. The query is
 * written as the server writes it.
 */
export function proposalOf(input: string): Pick<Card, "title" | "summary" | "method" | "path" | "body"> | undefined {
  let fields: ReadonlyMap<string, string>;
  const text = (raw: string | undefined): string => (raw?.startsWith('"') ? (JSON.parse(raw) as string) : "");
  try {
    JSON.parse(input);
    if (!input.trimStart().startsWith("{")) return undefined;
    fields = fieldsOf(input);
  } catch {
    return undefined;
  }
  const method = text(fields.get("method"));
  const path = text(fields.get("path"));
  if (method === "" || path === "") return undefined;
  const body = fields.get("body");
  const escaped = (s: string) => encodeURIComponent(s).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const query = fields.get("query")?.startsWith("{") ? [...fieldsOf(fields.get("query") ?? "")] : [];
  const pairs = query
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, raw]) => (raw.startsWith("[") ? itemsOf(raw) : [raw]).map((v) => `${escaped(name)}=${escaped(v.startsWith('"') ? text(v) : v)}`));
  return {
    title: text(fields.get("title")),
    summary: text(fields.get("summary")),
    method,
    path: pairs.length > 0 ? `${path}?${pairs.join("&")}` : path,
    ...(body !== undefined && body !== "null" && { body }),
  };
}

function space(json: string, at: number): number {
  while (at < json.length && " \t\r\n".includes(json[at] ?? "")) at++;
  return at;
}

/** The end of the value that begins at a position of valid JSON. */
function valueEnd(json: string, from: number): number {
  let depth = 0;
  for (let at = from; at < json.length; at++) {
    const c = json[at] ?? "";
    if (c === '"') {
      for (at++; at < json.length && json[at] !== '"'; at++) if (json[at] === "\\") at++;
      if (depth === 0) return at + 1;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (c === "," || " \t\r\n".includes(c))) return at;
  }
  return json.length;
}

/** JSON in lines. Only spaces between its tokens are other than in the original. */
export function inLines(json: string): string {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 20))}`;
  for (let at = 0; at < json.length; at++) {
    const c = json[at] ?? "";
    if (c === '"') {
      const from = at;
      for (at++; at < json.length && json[at] !== '"'; at++) if (json[at] === "\\") at++;
      out += json.slice(from, at + 1);
    } else if (c === "{" || c === "[") {
      const next = json[space(json, at + 1)];
      if (next === "}" || next === "]") {
        out += c + next;
        at = space(json, at + 1);
        continue;
      }
      depth++;
      out += c + line();
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!" \t\r\n".includes(c)) out += c;
  }
  return out;
}

/** What is invisible, or changes the direction of what follows, is shown by its code: the card must look like what is sent. */
export const visible = (text: string): string => text.replace(/[\p{Cf}\p{Cc}\p{Zl}\p{Zp}\u115f\u1160\u2800\u3164\u00a0\u2000-\u200a\u202f\u205f\u3000]/gu, (c) => (c === "\n" ? c : `[U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`));
