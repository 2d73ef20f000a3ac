// A page of another origin that is an MCP host, with the official client. The browser gives it only the headers that
// the server exposes.

import { createServer, type Server as Site } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";

import { startBrowser, startServer, desktop, type Browser, type Server } from "./harness.ts";

const key = "pk_of-ana-0123456789-abcdef";

let site: Site;
let origin: string;
let server: Server;
let browser: Browser;

beforeAll(async () => {
  // In its own folder, so that Vite does not read the configuration of our pages.
  const bundle = await build({
    configFile: false,
    logLevel: "error",
    root: join(import.meta.dirname, "mcp"),
    build: { write: false, minify: false, rollupOptions: { input: join(import.meta.dirname, "mcp/host.ts"), output: { format: "es", entryFileNames: "host.js" } } },
  });
  const script = [bundle].flat().flatMap((b) => ("output" in b ? b.output : []))[0];
  if (script?.type !== "chunk") throw new Error("the client was not bundled");
  const code = script.code;
  site = createServer((q, r) => {
    const js = q.url === "/host.js";
    r.setHeader("Content-Type", js ? "text/javascript" : "text/html");
    r.end(js ? code : '<!doctype html><title>Host</title><link rel="icon" href="data:,"><script type="module" src="/host.js"></script>');
  });
  await new Promise<void>((done) => site.listen(0, "127.0.0.1", done));
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
  process.env["PARLEY_AUTH_MODE"] = "keys";
  process.env["PARLEY_API_KEYS"] = `ana=${key}`;
  process.env["PARLEY_CORS_ORIGINS"] = origin;
  delete process.env["PARLEY_URL"];
  server = await startServer({ pace: "1ms" });
  browser = await startBrowser(desktop);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
  site?.closeAllConnections();
  site?.close();
});

test("a host from a listed origin connects, keeps its session, and asks", async () => {
  await browser.page.goto(origin);
  const url = `${server.url}/apps/home/mcp`;
  const got = await browser.page.evaluate(([url, key]) => (window as unknown as Host).ask(url!, key!), [url, key]);
  expect(got.tools).toContain("ha_agent.ask");
  expect(got.session).not.toBe("");
  expect(got.answer.length).toBeGreaterThan(0);
  const refused = await browser.page.evaluate((url) => (window as unknown as Host).challenge(url), url);
  expect(refused).toEqual({ status: 401, challenge: 'Bearer realm="parley"' });
});

interface Host {
  ask(url: string, key: string): Promise<{ tools: string[]; session: string; answer: string }>;
  challenge(url: string): Promise<{ status: number; challenge: string | null }>;
}
