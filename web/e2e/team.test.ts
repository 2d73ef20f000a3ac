// The agents that work for another one, as a tree: the example app in place of a built-in one, in both themes, on a
// desktop and on a phone.

import { cpSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

import type { AxeResults } from "axe-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let server: Server;
let browser: Browser;
const folder = temporary();

beforeAll(async () => {
  mkdirSync(join(folder, "apps"));
  cpSync(join(import.meta.dirname, "../../examples/agents/apps/desk"), join(folder, "apps/chaos"), { recursive: true });
  server = await startServer({ data: join(folder, "data"), apps: join(folder, "apps"), pace: "2ms" });
});
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;

async function look(name: string): Promise<void> {
  await browser.shot(`team-${name}`);
  await page().evaluate(axe);
  const results = await page().evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(o: unknown): Promise<AxeResults> } };
    for (const a of document.getAnimations()) a.finish?.();
    return axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
  });
  expect(results.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}`)), name).toEqual([]);
}

describe.each(["dark", "light"])("in the %s", (theme) => {
  test.each([
    ["desktop", { width: 1440, height: 900 }],
    ["phone", phone],
  ])("a team is a tree that folds: %s", async (name, size) => {
    browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
    await page().addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
    const p = parts(page());
    const at = `${theme}-${name}`;
    await page().goto(`${server.url}/apps/chaos/`);
    await p.ask("What has been decided about the login?");

    // One reader asks, and the other has its result.
    const team = page().getByRole("region", { name: "Agents at work for this answer" });
    const reader = team.locator('[data-agent="editor/reader"]');
    await reader.and(team.locator('[data-state="asks"]')).waitFor();
    await team.locator('[data-agent="editor/reader#2"][data-state="done"]').waitFor();
    expect(await reader.innerText()).toContain("Read Slack");
    const card = page().locator("main [data-interaction]");
    await card.getByRole("button", { name: "Allow once" }).waitFor();
    await look(`${at}-asks`);
    expect(await page().evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);

    // Its question leads to the card, which says who asks.
    await reader.getByRole("button", { name: /^Allow read_slack_mock/ }).click();
    await expect.poll(() => card.evaluate((c) => c === document.activeElement)).toBe(true);
    expect(await card.innerText()).toContain("reader");
    await card.getByRole("button", { name: "Allow once" }).click();
    await p.done();

    // Afterwards it is folded, and opens again.
    const head = team.getByRole("button", { name: /3 agents helped/ });
    expect(await head.getAttribute("aria-expanded")).toBe("false");
    await head.click();
    await team.locator('[data-agent="editor/checker"]').getByRole("button").first().click();
    await team.getByText(/holds: Hey team/).waitFor();
    expect(await team.locator("[data-state=done]").count()).toBe(3);
    await look(`${at}-done`);
  });
});
