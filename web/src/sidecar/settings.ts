// What the host page says about its panel: on the script tag, or in JavaScript.

import type { Options } from "../../public/sidecar.d.ts";
import { own } from "./own.ts";

export interface Addresses {
  /** Ends with a slash; conversations are at api/chat/conversations below it. */
  api: string;
  ws: string;
  /** Parley itself, ends with a slash: its own API is at v1/ below it. */
  server: string;
}

/**
 * What is not set belongs to the server that the script came from, so that one tag is enough. What is set may be
 * relative to the page, as everywhere in HTML.
 */
export function addressesOf(o: Options, script: string, page: string): Addresses {
  const folder = (address: string, base: string): string => {
    const url = new URL(address, base);
    if (!url.pathname.endsWith("/")) url.pathname += "/";
    url.search = url.hash = "";
    return url.href;
  };
  const set = (...values: (string | undefined)[]): string | undefined => values.find((v) => v !== undefined && v !== "");
  const home = folder("./", script);
  const apiUrl = set(o.apiUrl, import.meta.env["VITE_API_URL"] as string | undefined);
  const api = apiUrl === undefined ? home : folder(apiUrl, page);
  const wsUrl = set(o.wsUrl, import.meta.env["VITE_CODEX_WS_URL"] as string | undefined);
  const ws = wsUrl === undefined ? new URL("ws/codex", api) : new URL(wsUrl, page);
  ws.protocol = ws.protocol.replace(/^http/, "ws");
  if (!/^wss?:$/.test(ws.protocol)) throw new TypeError(`Parley: the address of the WebSocket is no address: ${ws.href.slice(0, 200)}`);
  return { api, ws: ws.href, server: o.serverUrl === undefined || o.serverUrl === "" ? home : folder(o.serverUrl, page) };
}

const oneOf = <T extends string>(value: string | undefined, list: readonly T[]): T | undefined => list.find((v) => v === value);

/** The settings on a script tag. */
export function optionsOf(tag: { readonly dataset: Readonly<Record<string, string | undefined>> }): Options {
  const d = own<Record<string, string | undefined>>(tag.dataset);
  const theme = oneOf(d["theme"], ["light", "dark", "auto"] as const);
  const side = oneOf(d["side"], ["start", "end"] as const);
  const suggestions = d["suggestions"]?.split("|").map((s) => s.trim()).filter((s) => s !== "");
  return {
    ...(d["apiUrl"] !== undefined && { apiUrl: d["apiUrl"] }),
    ...(d["wsUrl"] !== undefined && { wsUrl: d["wsUrl"] }),
    ...(d["serverUrl"] !== undefined && { serverUrl: d["serverUrl"] }),
    ...(d["apiBaseUrl"] && { apiBaseUrl: d["apiBaseUrl"] }),
    ...(d["org"] && { org: d["org"] }),
    ...(d["user"] && { user: d["user"] }),
    ...(d["title"] && { title: d["title"] }),
    ...(d["greeting"] && { greeting: d["greeting"] }),
    ...(d["key"] !== undefined && { key: d["key"] }),
    ...(d["launcher"] !== undefined && { launcher: d["launcher"] !== "none" }),
    ...(theme && { theme }),
    ...(side && { side }),
    ...(suggestions && { suggestions }),
  };
}

export interface Shortcut {
  key: string;
  ctrl: boolean;
  meta: boolean;
  alt: boolean;
  shift: boolean;
}

/** "Mod+." is Command on a Mac and Control elsewhere. A key by itself is refused: people type it. */
export function shortcutOf(text: string, mac: boolean): Shortcut | undefined {
  if (text === "") return undefined;
  const parts = text.split("+").map((p) => p.trim().toLowerCase());
  const key = parts.pop() ?? "";
  const has = (name: string) => parts.includes(name);
  const s = { key, ctrl: has("ctrl") || (has("mod") && !mac), meta: has("meta") || (has("mod") && mac), alt: has("alt"), shift: has("shift") };
  if (key === "" || !(s.ctrl || s.meta || s.alt) || parts.some((p) => !["ctrl", "meta", "alt", "shift", "mod"].includes(p))) {
    console.warn(`Parley: the key "${text}" of the panel is not understood. Write it as "Mod+." or "Ctrl+Shift+K"; "" is none.`);
    return undefined;
  }
  return s;
}

export const presses = (s: Shortcut, e: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">): boolean =>
  e.key.toLowerCase() === s.key && e.ctrlKey === s.ctrl && e.metaKey === s.meta && e.altKey === s.alt && (e.shiftKey === s.shift || (!s.shift && !/^[a-z]$/.test(s.key)));

/** For people and for aria-keyshortcuts. */
export function shortcutText(s: Shortcut): string {
  const key = s.key.length === 1 ? s.key.toUpperCase() : s.key[0]?.toUpperCase() + s.key.slice(1);
  return [s.ctrl && "Control", s.meta && "Meta", s.alt && "Alt", s.shift && "Shift", key].filter(Boolean).join("+");
}
