// The script of the sidecar, built as one file: /sidecar.js. What it promises is in public/sidecar.d.ts.

import type * as Public from "../../public/sidecar.d.ts";
import { perFrame } from "../session/session.ts";
import { drawOwn, own } from "./own.ts";
import { optionsOf } from "./settings.ts";
import { Sidecar } from "./sidecar.ts";

const isSidecar = (v: unknown): boolean => typeof v === "object" && v !== null && "mount" in v && "setContext" in v;

/** The tag that this script runs for. A module has no current one. */
function ownTag(): HTMLScriptElement | undefined {
  const current = document.currentScript;
  if (current instanceof HTMLScriptElement && current.src !== "") return current;
  return [...document.querySelectorAll<HTMLScriptElement>("script[src]")].findLast((s) => new URL(s.src, document.baseURI).pathname.endsWith("/sidecar.js"));
}

function shelf(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined; // a frame in a sandbox has none
  }
}

function start(): void {
  const before: unknown = window.ParleySidecar;
  if (isSidecar(before)) {
    console.warn("Parley: this page has the sidecar already. The second script tag does nothing.");
    return;
  }
  const tag = ownTag();
  // As they are now: what wraps them later, such as a script that measures the page, sees no token.
  const { WebSocket: Socket, fetch: load } = window;
  drawOwn();
  const sidecar = new Sidecar({
    open: (url) => new Socket(url),
    fetch: (input, init) => load.call(window, input, own<RequestInit>(init)),
    shelf: shelf(),
    now: () => Date.now(),
    random: Math.random,
    schedule: perFrame,
    script: tag?.src ?? document.baseURI,
    page: () => document.baseURI,
  });
  window.ParleySidecar = sidecar;
  const options: Public.Options = tag ? optionsOf(tag) : {};
  const ready = () => {
    if (tag && !Object.hasOwn(tag.dataset, "manual")) sidecar.mount(options);
    else sidecar.configure(options);
    if (Array.isArray(before)) for (const f of before as unknown[]) if (typeof f === "function") (f as (s: Public.Sidecar) => void)(sidecar);
    window.dispatchEvent(new CustomEvent("parley-sidecar", { detail: sidecar }));
  };
  ready();
}

start();
