// What stands before a note between lines of three dashes: values with names, in YAML.

import { parseDocument } from "yaml";

export interface Property {
  name: string;
  values: readonly string[];
  /** It was a list. */
  list: boolean;
}

export interface Note {
  properties: readonly Property[];
  /** Why its properties could not be read; they are raw then. */
  problem: string;
  raw: string;
  /** The note itself. */
  body: string;
  /** The number of the first line of the body. */
  line: number;
}

/** Characters of the properties that are read, and how many are shown. */
const most = 16_000;
const mostProperties = 60;
const mostValues = 100;

/** Cuts a note into its properties and its text. */
export function splitNote(text: string): { raw: string; body: string; line: number } {
  const m = /^\ufeff?---[ \t]*\r?\n(?:([^]*?)\r?\n)?(?:---|\.\.\.)[ \t]*(?:\r?\n|$)/.exec(text.slice(0, most));
  if (!m) return { raw: "", body: text, line: 1 };
  return { raw: m[1] ?? "", body: text.slice(m[0].length), line: m[0].split("\n").length };
}

export function readNote(text: string): Note {
  const { raw, body, line } = splitNote(text);
  const none = { properties: [], problem: "", raw, body, line };
  if (raw.trim() === "") return none;
  try {
    const doc = parseDocument(raw, { prettyErrors: false, logLevel: "silent" });
    const [error] = doc.errors;
    if (error) return { ...none, problem: error.message.split("\n", 1)[0] ?? "" };
    const value: unknown = doc.toJS({ maxAliasCount: 50 });
    if (typeof value !== "object" || value === null || Array.isArray(value)) return { ...none, problem: "These are no values with names." };
    return { ...none, properties: Object.entries(value).slice(0, mostProperties).map(([name, v]) => propertyOf(name, v)) };
  } catch (cause) {
    return { ...none, problem: cause instanceof Error ? (cause.message.split("\n", 1)[0] ?? "") : "" };
  }
}

/** A value as it is shown. */
export function propertyOf(name: string, value: unknown): Property {
  if (Array.isArray(value)) return { name, list: true, values: value.slice(0, mostValues).map(said) };
  return { name, list: false, values: value === null || value === "" ? [] : [said(value)] };
}

function said(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}
