// The server's page for an app that does not come with Parley, on the real server: its look, what its tools made, its
// commands, and what becomes of an answer when the server is killed from the page.

import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { startGarden, type Garden } from "./garden.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

let garden: Garden;
let server: Server;
let browser: Browser;
const data = temporary();

const page = () => browser.page;
const open = async (size: { width: number; height: number }, theme: string, touch = false) => {
  browser = await startBrowser(size, { touch, reducedMotion: true });
  await page().addInitScript((theme) => {
    if (window === top) localStorage.setItem("parley.theme", theme); // a frame in a sandbox has no storage
  }, theme);
  return parts(page());
};
async function look(name: string): Promise<void> {
  await browser.shot(`page-${name}`);
  expect(await violations(page()), name).toEqual([]);
}

describe.runIf(!process.env["PARLEY_URL"])("an app of one's own", () => {
  beforeAll(async () => {
    garden = await startGarden();
    process.env["GARDEN_URL"] = garden.url;
    process.env["GARDEN_SECRET"] = `whsec_${randomBytes(32).toString("base64")}`;
    server = await startServer({ data, pace: "20ms", own: join(import.meta.dirname, "own") });
  });
  afterAll(async () => {
    await server?.stop();
    await garden?.close();
    rmSync(data, { recursive: true, force: true });
  });
  afterEach(async () => {
    const { complaints } = browser;
    await browser.close();
    // What the hostile page tries is refused, and the browser says so.
    expect(complaints.filter((c) => !/sandbox|Blocked script|\/seen'|\/led'/.test(c))).toEqual([]);
  });

  test.each([
    ["dark", "phone", phone],
    ["light", "desktop", { width: 1440, height: 900 }],
  ])("has a page with its look, in the %s on a %s", async (theme, name, size) => {
    const p = await open(size, theme, name === "phone");
    await page().goto(`${server.url}/`);
    await page().getByRole("link", { name: /Garden/ }).waitFor();
    await look(`${name}-apps`);
    await page().getByRole("link", { name: /Garden/ }).click();
    await page().getByRole("heading", { name: 'Garden <b>"&" field' }).first().waitFor();
    expect(await page().title()).toBe('Garden <b>"&" field');
    await expect.poll(() => page().locator("main img").evaluate((e) => (e as HTMLImageElement).naturalWidth)).toBeGreaterThan(0);
    await p.input.fill("x");
    await look(`${name}-empty`);
    await p.input.fill("/w");
    await expect.poll(() => page().getByRole("option").allInnerTexts()).toEqual([expect.stringContaining("/water"), expect.stringContaining("/week")]);
    await look(`${name}-commands`);
    await page().keyboard.press("Enter");
    expect(await p.input.inputValue()).toBe("/water ");
    await page().keyboard.type("3");
    await page().keyboard.press("Enter");
    const card = page().locator("main [data-interaction]");
    await card.getByRole("button", { name: "Allow once" }).waitFor();
    await page().locator("article").getByText("/water 3").waitFor();
    await look(`${name}-permission`);
    await card.getByRole("button", { name: "Allow once" }).click();
    await p.done();
    if (name === "phone") await page().getByRole("button", { name: "Conversations" }).click();
    await page().getByRole("button", { name: /^App: Garden/ }).click();
    await look(`${name}-switcher`);
    await page().getByRole("menuitem", { name: "About this app" }).click();
    await page().getByRole("dialog").getByText("1 turn · 1 tool call").waitFor();
    await look(`${name}-about`);
  });

  test("shows what its tools made, and nothing of it acts", async () => {
    const p = await open({ width: 1024, height: 1400 }, "dark");
    await page().goto(`${server.url}/apps/garden/`);
    await p.ask("Show me all beds of the garden.");
    await p.done();
    const table = page().getByRole("region", { name: "Table beds.csv" });
    await table.getByRole("cell", { name: "<img src=x onerror=alert(1)>" }).waitFor();
    await page().getByRole("button", { name: "Show 46 rows" }).waitFor();
    await page().getByRole("button", { name: "Show beds.html" }).click();
    const frame = page().frameLocator("iframe[title='beds.html']");
    await frame.getByRole("heading", { name: "The beds in June" }).waitFor();
    expect(await frame.locator("p").innerText()).toBe("Six beds, one of them dry.");
    expect(await frame.locator("h1").evaluate((e) => getComputedStyle(e).color)).toBe("rgb(47, 158, 68)");
    expect(await page().locator("iframe[title='beds.html']").getAttribute("sandbox")).toBe("");
    expect(await page().title()).not.toBe("stolen");
    await page().getByRole("button", { name: "Show beds.pdf" }).click();
    await page().locator("iframe[title='beds.pdf']").waitFor();
    await look("artifacts");
    await page().getByRole("button", { name: /^Steps/ }).click();
    await page().getByText("Beds: table").waitFor();
    await page().getByRole("button", { name: "details" }).first().click();
    await look("steps");
    await page().getByRole("button", { name: "Timeline" }).click();
    await page().getByRole("region", { name: "Why" }).getByText("tool beds: 4 ok").waitFor();
    await look("timeline");
    expect(garden.strangers, "nothing that was shown has spoken to anybody").toEqual([]);
  });

  test("an app that is not served says why", async () => {
    await open({ width: 768, height: 900 }, "light");
    const answer = await page().goto(`${server.url}/apps/meadow/`);
    expect(answer?.status()).toBe(404);
    await page().getByRole("alert").getByText('There is no app "meadow"').waitFor();
    expect(await page().getByRole("button", { name: "New Chat" }).count(), "nothing can be begun here").toBe(0);
    await look("not-served");
    await page().getByRole("alert").getByRole("link", { name: "All apps" }).click();
    await page().getByRole("link", { name: /Garden/ }).waitFor();
  });

  test("the server is killed in mid-answer from the page, and the answer goes on", async () => {
    const p = await open({ width: 1280, height: 900 }, "dark");
    await page().goto(`${server.url}/apps/garden/`);
    await page().getByRole("button", { name: "Kill the server" }).waitFor();
    await page().setViewportSize(phone);
    expect(await page().getByRole("button", { name: "Kill the server" }).innerText(), "on a phone, too, it says what it does").toBe("Kill");
    await page().setViewportSize({ width: 1280, height: 900 });
    const asked = garden.lose("weather");
    await p.ask("Will it rain tomorrow?");
    await asked;
    await page().getByRole("button", { name: "Kill the server" }).click();
    await expect.poll(() => p.last.innerText()).toMatch(/Tuesday\s+0 mm\s+21/);
    await p.done();
    expect(await p.answers.count()).toBe(1);
    await page().getByRole("button", { name: "Timeline" }).click();
    await page().locator("[data-bar=down]").waitFor();
    await page().getByRole("region", { name: "Why" }).getByText(/resumed 1 time after an interruption/).waitFor();
    await look("killed");
  });
});
