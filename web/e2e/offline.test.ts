// Without a connection a page says so, and comes back by itself: at a server's root, and below the prefix of an ingress. Its
// worker keeps files of the build and nothing else, and each build has its own.

import { rmSync } from "node:fs";

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { Ingress } from "./ingress.ts";
import { lookAt } from "./looks.ts";

let data: string;
let server: Server;
const was = { ...process.env };

beforeAll(async () => {
  delete process.env["PARLEY_URL"]; // this one is killed
  data = temporary();
  server = await startServer({ data, pace: "1ms" });
});
afterAll(async () => {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
  Object.assign(process.env, was);
});

async function open(url: string): Promise<Browser> {
  const browser = await startBrowser(phone, { touch: true, reducedMotion: true, worker: true });
  onTestFinished(() => browser.close());
  await browser.page.goto(url);
  // Installed, and in charge of the page.
  await browser.page.waitForFunction(() => navigator.serviceWorker.controller?.state === "activated");
  return browser;
}

/** The caches of the page's origin with the paths of what is in them. */
const kept = (b: Browser) =>
  b.page.evaluate(async () => {
    const all: Record<string, string[]> = {};
    for (const name of await caches.keys()) all[name] = (await (await caches.open(name)).keys()).map((r) => new URL(r.url).pathname);
    return all;
  });

const title = (b: Browser) => b.page.getByRole("heading", { name: "No connection to the server" });

describe("a page without a connection", () => {
  test("says so, looks for the server, and goes on where it was", async () => {
    const b = await open(`${server.url}/apps/major/`);
    const p = parts(b.page);
    await p.ask("When is the support line answered?");
    await p.done();
    await b.page.reload(); // its files pass the worker now
    await p.done();
    const at = b.page.url();
    await server.kill?.();
    await b.page.reload();
    await title(b).waitFor();
    await b.page.getByText("This page comes back by itself when there is a connection.").waitFor();
    await lookAt(b, "offline", 844, [1440, 390]);
    await b.page.getByRole("button", { name: "Try again" }).click();
    await b.page.getByText("There is still no connection.").waitFor();
    expect(b.page.url()).toBe(at);
    server = await startServer({ data, pace: "1ms", addr: server.url.replace("http://", "") });
    await p.done(); // by itself
    expect(await p.last.locator(".prose").innerText()).toMatch(/07:00 to 19:00/);

    const [all, ...others] = Object.entries(await kept(b));
    expect(others).toEqual([]);
    expect(all?.[0]).toMatch(/^parley \/ [0-9a-f]{16}$/);
    expect(all?.[1]).toContain("/offline.html");
    expect(all?.[1].filter((path) => !/^\/(?:assets\/[\w.-]+|offline\.(?:html|css|js)|theme\.js|favicon\.svg)$/.test(path))).toEqual([]);
    expect(all?.[1].some((path) => path.startsWith("/assets/"))).toBe(true);
    expect(b.complaints.filter((c) => !/Failed to load|ERR_/.test(c))).toEqual([]);
  });

  test("is the same below a prefix, and a new build takes its place at once", async () => {
    process.env["PARLEY_AUTH_MODE"] = "ingress";
    process.env["PARLEY_AUTH_SUPERVISOR"] = "127.0.0.1";
    const addon = await startServer({ pace: "1ms" });
    onTestFinished(() => addon.stop());
    let ingress = await Ingress.before(addon.url);
    onTestFinished(() => ingress.close());
    const b = await open(`${ingress.addon}apps/home/`);
    const prefix = new URL(ingress.addon).pathname;
    await b.page.reload();
    await parts(b.page).input.waitFor();
    const before = Object.keys(await kept(b));
    expect(before.map((name) => name.startsWith(`parley ${prefix} `))).toEqual([true]);

    // The host goes away and comes back, with an add-on that was updated.
    const port = Number(new URL(ingress.url).port);
    await ingress.close();
    await b.page.reload();
    await title(b).waitFor();
    ingress = await Ingress.before(addon.url, port);
    ingress.worker = (script) => script.replace(/const build = "[^"]*"/, 'const build = "another"');
    await parts(b.page).input.waitFor();
    await expect.poll(async () => Object.keys(await kept(b))).toEqual([`parley ${prefix} another`]);
    expect(ingress.outside).toEqual([]);

    // A page of the host's own is none of the worker's.
    await b.page.goto(`${ingress.url}/lovelace`);
    expect(await b.page.evaluate(() => navigator.serviceWorker.controller)).toBeNull();
  });
});
