// What can be seen, in both themes and on a phone: contrast and names by axe, and the end of an answer in view.

import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";

import type { AxeResults } from "axe-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let server: Server;
let data: string;
let browser: Browser;

beforeAll(async () => {
  data = temporary();
  server = await startServer({ data, pace: "5ms" });
});
afterAll(async () => {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;

/** What axe finds against WCAG 2 AA: the rule, and where. */
async function found(): Promise<string[]> {
  await page().evaluate(axe);
  const results = await page().evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(o: unknown): Promise<AxeResults> } };
    // What moves is looked at when it stands still.
    for (const a of document.getAnimations()) a.finish?.();
    return axe.run({ runOnly: ["wcag2a", "wcag2aa"] });
  });
  return results.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.any[0]?.message ?? n.failureSummary ?? ""}`));
}

async function look(name: string): Promise<void> {
  await browser.shot(`look-${name}`);
  expect(await found(), name).toEqual([]);
}

describe.runIf(!process.env["PARLEY_URL"]).each(["dark", "light"])("in the %s", (theme) => {
  test.each([
    ["desktop", { width: 1440, height: 900 }],
    ["phone", phone],
  ])("everything can be read: %s", async (name, size) => {
    browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
    await page().addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
    const p = parts(page());
    const at = `${theme}-${name}`;
    await page().goto(`${server.url}/`);
    await page().getByRole("link").first().waitFor();
    await look(`${at}-apps`);

    await page().goto(`${server.url}/apps/chaos/`);
    await page().getByRole("main").getByText("What's the final spec?").waitFor();
    await p.input.fill("x");
    await look(`${at}-chaos-empty`);
    await p.ask("I'm starting on the login system. What's the final spec?");
    await p.done();
    await page().getByRole("button", { name: /Thought process/ }).last().click();
    await look(`${at}-chaos-answer`);

    await page().goto(`${server.url}/apps/home/`);
    await p.ask("Turn on the bedroom light.");
    await page().locator("main [data-interaction]").waitFor();
    await p.input.fill("none of them");
    await look(`${at}-home-question`);
    await page().getByRole("button", { name: "Skip and say this" }).click();
    await p.done();
    await p.ask("Why did the bedroom lights flicker last night?");
    await p.stop.waitFor({ state: "detached" });
    await page().getByRole("button", { name: /^Steps/ }).last().click();
    await look(`${at}-home-answer`);
    await page().getByRole("button", { name: "Timeline" }).last().click();
    await page().getByRole("dialog").waitFor();
    await look(`${at}-home-timeline`);
  });
});

test("the end of an answer stays in view while its plot loads late, and a reader who goes up stays there", async () => {
  browser = await startBrowser({ width: 1440, height: 700 });
  const p = parts(page());
  let loaded = (): void => undefined;
  const held = new Promise<void>((done) => (loaded = done));
  await page().route("**/v1/artifacts/**", async (route) => {
    await held;
    await route.continue();
  });
  await page().goto(`${server.url}/apps/home/`);
  await p.ask("Why did the bedroom lights flicker last night?");
  await p.stop.waitFor({ state: "detached" });
  const box = page().getByRole("region", { name: "Conversation" });
  const fromEnd = () => box.evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
  await expect.poll(fromEnd).toBeLessThan(2);
  const room = () => page().locator("figure[data-plot]").evaluate((e) => Math.round(e.getBoundingClientRect().height));
  const reserved = await room();
  loaded();
  await page().locator("figure[data-plot] canvas").first().waitFor();
  expect(Math.abs((await room()) - reserved), "the room for a plot is there before it").toBeLessThan(20);
  await expect.poll(fromEnd).toBeLessThan(2);
  expect(await page().getByRole("button", { name: "Jump to latest" }).count()).toBe(0);

  // Growth that comes between a scroll to the end and the event that tells of it.
  for (let i = 0; i < 20; i++) {
    await box.evaluate(async (e) => {
      e.scrollTop = e.scrollHeight;
      const article = document.querySelector("article:last-of-type") as HTMLElement;
      article.style.paddingBottom = `${(parseInt(article.style.paddingBottom) || 0) + 300}px`;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    });
    await expect.poll(fromEnd).toBeLessThan(2);
  }
  const steps = page().getByRole("button", { name: /^Steps/ }).last();
  await box.evaluate((e) => {
    (document.querySelector("article:last-of-type") as HTMLElement).style.paddingBottom = "";
    e.scrollTop = e.scrollHeight;
  });
  await steps.scrollIntoViewIfNeeded();
  const top = () => steps.evaluate((e) => Math.round(e.getBoundingClientRect().top));
  const before = await top();
  await steps.click();
  await expect.poll(() => steps.getAttribute("aria-expanded")).toBe("true");
  expect(Math.abs((await top()) - before), "what is unfolded stays where it was").toBeLessThan(3);
  await page().getByRole("button", { name: "Jump to latest" }).click();
  await expect.poll(fromEnd).toBeLessThan(2);
  await box.hover();
  await page().mouse.wheel(0, -400);
  await page().getByRole("button", { name: "Jump to latest" }).waitFor();
});
