// The page on a server that requires a key.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";

const key = "pk_of-ana-0123456789-abcdef";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  process.env["PARLEY_AUTH_MODE"] = "keys";
  process.env["PARLEY_API_KEYS"] = `ana=${key},bea=pk_of-bea-0123456789-abcdef`;
  delete process.env["PARLEY_URL"];
  server = await startServer({ pace: "5ms" });
});
afterAll(() => server.stop());

beforeEach(async () => {
  browser = await startBrowser({ width: 1440, height: 900 });
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const gate = () => page().getByRole("dialog", { name: "This server asks for a key" });

async function unlock(with_: string): Promise<void> {
  await gate().waitFor();
  await gate().getByLabel("Key", { exact: true }).fill(with_);
  await page().keyboard.press("Enter");
}

test("it asks for the key, says when it is wrong, and then opens the requested page", async () => {
  const p = parts(page());
  await page().goto(`${server.url}/apps/home/`);
  await gate().waitFor();
  await browser.shot("keys-gate");
  await page().keyboard.press("Escape"); // the dialog must stay: there is nothing behind it
  await unlock("pk_somebody-elses");
  await gate().getByRole("alert").waitFor();
  await browser.shot("keys-refused");
  await unlock(key);
  await gate().waitFor({ state: "detached" });
  await page().locator('[data-entity="light.bedroom_ceiling"]').waitFor();
  await p.ask("Why did the bedroom lights flicker last night?");
  await p.done();
  await page().locator("figure[data-plot] canvas").first().waitFor();
  const [file] = await Promise.all([page().waitForEvent("download"), page().getByRole("link", { name: /^Download .*\.png$/ }).first().click()]);
  expect(await file.failure()).toBe(null);
  expect(file.suggestedFilename()).toMatch(/\.(svg|png)$/);

  // The tab keeps the key, another tab does not. Images, such as the one in place of a chart whose values are gone,
  // send no key of their own.
  await page().route("**/v1/artifacts/**", async (route) => {
    const there = await route.fetch();
    await (there.headers()["content-type"]?.startsWith("image/") ? route.continue() : route.fulfill({ status: 410 }));
  });
  await page().reload();
  await p.done();
  expect(await gate().count()).toBe(0);
  const plot = page().getByRole("img", { name: /^Plot: / }).first();
  await expect.poll(() => plot.evaluate((i) => (i as HTMLImageElement).naturalWidth)).toBeGreaterThan(100);
  expect(await plot.getAttribute("src")).toMatch(/^blob:/);
  const other = await browser.context.newPage();
  await other.goto(`${server.url}/`);
  await other.getByRole("dialog", { name: "This server asks for a key" }).waitFor();
  expect(await other.evaluate(() => [document.cookie, ...Object.values(localStorage)].join(" "))).not.toContain("pk_");
  await other.close();
});

test("the list of apps asks, too, and a user sees their own conversations", async () => {
  const p = parts(page());
  await page().goto(`${server.url}/`);
  await unlock("pk_of-bea-0123456789-abcdef");
  await page().getByRole("link", { name: /Home/ }).click();
  await p.input.waitFor();
  await page().getByText("Conversations about your home will be listed here.").waitFor();
});
