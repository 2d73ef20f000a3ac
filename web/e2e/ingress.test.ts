// The page inside Home Assistant: below a prefix and in a frame. The server is the real one, and this test acts as
// the Supervisor.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { Ingress } from "./ingress.ts";

const question = "Why did the bedroom lights flicker last night?";

let server: Server;
let ingress: Ingress;
let browser: Browser;

beforeAll(async () => {
  process.env["PARLEY_AUTH_MODE"] = "ingress";
  process.env["PARLEY_AUTH_SUPERVISOR"] = "127.0.0.1";
  delete process.env["PARLEY_URL"]; // a server that runs already is not behind an ingress
  server = await startServer({ pace: "5ms" });
});
afterAll(() => server.stop());

beforeEach(async () => {
  ingress = await Ingress.before(server.url);
  browser = await startBrowser({ width: 1440, height: 900 });
});
afterEach(async () => {
  const { complaints } = browser;
  const { outside } = ingress;
  await browser.close();
  await ingress.close();
  expect(complaints).toEqual([]);
  expect(outside).toEqual([]);
});

const page = () => browser.page;

test("it works below the prefix: chat, streams, pictures, entities, links", async () => {
  const p = parts(page());
  // People type it without the slash; the redirect to the page must keep the prefix.
  await page().goto(`${ingress.addon}apps/home`);
  await page().waitForURL(`${ingress.addon}apps/home/`);
  await page().locator('[data-entity="light.bedroom_ceiling"]').waitFor();
  await p.ask(question);
  await p.done();
  expect(await p.last.locator(".prose").innerText()).toMatch(/voltage dipped/);
  await page().locator("figure[data-plot] canvas").first().waitFor();
  expect(await page().getByRole("link", { name: /^Download .*\.png$/ }).first().evaluate((a) => (a as HTMLAnchorElement).href)).toContain(`${ingress.addon}v1/artifacts/`);
  for (const stream of [/^GET \/v1\/sessions\/[^/]+\/events/, /^GET \/apps\/home\/entities\/stream/]) {
    expect(ingress.asked.some((a) => stream.test(a))).toBe(true);
  }
  await browser.shot("ingress-answer");

  // A permission is requested and granted.
  await p.newChat.click();
  await p.ask("Turn on the bedroom ceiling light.");
  await page().getByRole("button", { name: "Allow once" }).click();
  await p.done();
  await expect.poll(() => page().locator('[data-entity="light.bedroom_ceiling"]').innerText()).toMatch(/On/);
  expect(await page().locator("main [data-interaction]").last().innerText()).toMatch(/Allowed once · .* · by you/);

  // The location in the page is in its fragment, so it survives.
  const place = page().url();
  expect(place).toMatch(/\/apps\/home\/#\//);
  await page().reload();
  await p.done();
  expect(page().url()).toBe(place);
  expect(await page().locator("[data-session]").count()).toBe(2);
});

test("it is shown in a frame of Home Assistant, and says nothing of a login", async () => {
  await page().goto(`${ingress.url}/panel`);
  const frame = page().frameLocator("iframe");
  await frame.getByRole("link", { name: /Home/ }).click();
  const input = frame.getByRole("textbox", { name: "Message" });
  await input.fill("What is unavailable right now?");
  await input.press("Enter");
  await frame.locator("article").last().getByRole("button", { name: "Copy answer" }).waitFor();
  const said = await frame.locator("body").innerText();
  expect(said).not.toMatch(/log ?in|API key|asks for a key/i);
  await browser.shot("ingress-frame");
});

test("each user of the house has conversations of their own", async () => {
  const p = parts(page());
  ingress.user = { id: "aaaa0000", name: "bea", displayName: "Bea" };
  await page().goto(`${ingress.addon}apps/home/`);
  await page().getByText("Conversations about your home will be listed here.").waitFor();
  await p.ask("What is unavailable right now, aubergine?");
  await p.done();
  expect(await page().locator("[data-session]").count()).toBe(1);
  ingress.user = { id: "bbbb0000", name: "cleo", displayName: "Cleo" };
  await page().goto(`${ingress.addon}apps/home/`);
  await page().getByText("Conversations about your home will be listed here.").waitFor();
  // Not by its URL either.
  ingress.user = { id: "aaaa0000", name: "bea", displayName: "Bea" };
  await page().goto(`${ingress.addon}apps/home/`);
  await page().locator("[data-session]").first().click();
  await p.done();
  const hers = page().url();
  ingress.user = { id: "bbbb0000", name: "cleo", displayName: "Cleo" };
  await page().goto("about:blank");
  await page().goto(hers);
  await page().getByText("Conversations about your home will be listed here.").waitFor();
  expect(await page().locator("article").count()).toBe(0);
  expect(await page().locator("body").innerText()).not.toMatch(/aubergine/);
});

test("the other app works there too, and so does the description of the API", async () => {
  const p = parts(page());
  await page().goto(`${ingress.addon}apps/chaos/`);
  await p.ask("I'm starting on the login system. What's the final spec?");
  await p.done();
  expect(await p.last.locator(".prose").innerText()).toMatch(/Google OAuth/);
  await page().goto(`${ingress.addon}docs`);
  await page().getByRole("link", { name: "openapi.json" }).click();
  await page().waitForURL(`${ingress.addon}openapi.json`);
  const spec = (await (await fetch(`${ingress.addon}openapi.json`)).json()) as { servers: { url: string }[] };
  expect(spec.servers.map((s) => new URL(s.url, `${ingress.addon}openapi.json`).href)).toEqual([ingress.addon]);
});
