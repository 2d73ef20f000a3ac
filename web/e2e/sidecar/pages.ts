// Pages of others, at an origin of their own, that have the panel: each with something that panels break on.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { build, type Rolldown } from "vite";

/** What hurts panels most: everything is unset, drawn over, moved and hidden, with the highest z-index and !important. */
const hostile = `
  * { all: unset !important; }
  * { color: red !important; font: 40px/3 fantasy !important; letter-spacing: 9px !important; text-transform: uppercase !important; transform: rotate(3deg) !important; }
  html, body { filter: invert(1); perspective: 10px; overflow: hidden !important; transform: scale(0.8) !important; }
  parley-sidecar, parley-sidecar * { display: none !important; opacity: 0 !important; visibility: hidden !important; pointer-events: none !important; position: absolute !important; inset: -999px !important; }
  button, input, textarea, dialog, [popover], section, header, p, h2 { display: none !important; background: lime !important; }
  #cover { display: block !important; position: fixed !important; inset: 0 !important; z-index: 2147483647 !important; background: yellow !important; }
  @keyframes turn { to { opacity: 0; } }
`;

const rows = Array.from({ length: 12 }, (_, i) => `<tr><td>Lead ${i}</td><td>Fjordkraft</td><td>qualified</td></tr>`).join("");
const body = `<h1>Leads</h1><button id="before">A button of the page</button><input id="field" aria-label="A field of the page"><table><tbody>${rows}</tbody></table><div id="cover"></div>`;
const plain = "body { font: 16px Georgia, serif; margin: 40px; } td { border: 1px solid #999; padding: 6px; } button { border-radius: 0; }";

/** Counts the keys that the page sees, and has the token that tests give it. */
const own = `
  window.keys = 0;
  window.heard = [];
  addEventListener("keydown", () => window.keys++);
  (window.ParleySidecar ??= []).push((s) => {
    s.configure({ getToken: (why) => { window.heard.push("token " + why); return sessionStorage.getItem("token"); } });
    for (const type of ["open", "close", "message", "action", "answer", "confirm", "write", "error"]) s.on(type, (d) => window.heard.push(type + (d?.state ? " " + d.state : "")));
  });
`;

interface Page {
  style?: string;
  html?: string;
  attributes?: string;
  tag?: string;
  csp?: string;
  script?: string;
}

export async function startPages(parley: string, attributes = ""): Promise<{ url: string; stop(): Promise<void> }> {
  const bundle = async (entry: string): Promise<string> => {
    const out = (await build({
      configFile: false,
      logLevel: "error",
      define: { "process.env.NODE_ENV": '"development"', // StrictMode mounts twice only here
        __VUE_OPTIONS_API__: "false", __VUE_PROD_DEVTOOLS__: "false", __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: "false" },
      build: { write: false, lib: { entry: join(import.meta.dirname, entry), formats: ["iife"], name: "page", fileName: () => "page.js" } },
    })) as Rolldown.RolldownOutput[];
    return out[0]?.output[0].code ?? "";
  };
  const scripts: Record<string, string> = { "/own.js": own, "/react.js": await bundle("react.tsx"), "/vue.js": await bundle("vue.ts") };
  const tag = `<script src="${parley}/sidecar.js" ${attributes} data-suggestions="How many leads do we have, by stage?|What is new?"`;
  const connects = `${parley} ${parley.replace(/^http/, "ws")}`;
  const pages: Record<string, Page> = {
    "/plain": {},
    "/without": { tag: "" },
    "/hostile": { style: hostile },
    "/csp": { style: "", csp: `default-src 'none'; script-src 'self' ${parley}; connect-src ${connects}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'` },
    "/rtl": { html: 'lang="he" dir="rtl"' },
    "/two": { tag: `${tag}></script>${tag} data-title="Another"></script>` },
    "/dark": { html: 'style="color-scheme: dark"', style: `${plain} body { background: #111; color: #eee; }` },
    "/module": { tag: tag.replace("<script", '<script type="module"') + "></script>" },
    "/react": { tag: `${tag} data-manual></script>`, script: "/react.js" },
    "/vue": { tag: `${tag} data-manual></script>`, script: "/vue.js" },
    "/frame": { tag: "", style: "iframe { inline-size: 700px; block-size: 600px; }" },
  };
  const server: Server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://x/");
    const script = scripts[pathname];
    if (script !== undefined) return void response.writeHead(200, { "Content-Type": "text/javascript; charset=utf-8" }).end(script);
    const page = pages[pathname];
    if (!page) return void response.writeHead(404).end();
    const content = pathname === "/frame" ? '<h1>Outside</h1><iframe src="/plain" title="inside"></iframe>' : body;
    response
      .writeHead(200, { "Content-Type": "text/html; charset=utf-8", ...(page.csp && { "Content-Security-Policy": page.csp }) })
      .end(
        `<!doctype html><html ${page.html ?? 'lang="en"'}><head><title>Leads</title><meta name="viewport" content="width=device-width, initial-scale=1">` +
          (page.csp ? "" : `<style>${page.style ?? plain}</style>`) +
          `</head><body>${content}<script src="/own.js"></script>${page.tag ?? `${tag}></script>`}${page.script ? `<script src="${page.script}"></script>` : ""}</body></html>`,
      );
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => new Promise((done) => (server.close(() => done()), server.closeAllConnections())),
  };
}
