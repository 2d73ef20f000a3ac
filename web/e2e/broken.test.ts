// An app whose file was changed and has a mistake: the page says where, and the last version without a mistake answers.

import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { violations } from "./axe.ts";
import { parts, phone, startBrowser, startServer, temporary } from "./harness.ts";

const described = async (url: string) => JSON.stringify(await (await fetch(`${url}/v1/apps/order`)).json());

test.runIf(!process.env["PARLEY_URL"])("an open page follows its app: its title, description, colour and examples", async () => {
  const folder = temporary();
  cpSync(join(import.meta.dirname, "../../examples/page/apps"), join(folder, "apps"), { recursive: true });
  const file = join(folder, "apps/order/app.yaml");
  const before = readFileSync(file, "utf8");
  const server = await startServer({ data: join(folder, "data"), apps: join(folder, "apps"), pace: "1ms" });
  const browser = await startBrowser(phone);
  try {
    const { page } = browser;
    await page.goto(`${server.url}/apps/order/`);
    await page.getByRole("heading", { level: 2, name: "Tea room" }).waitFor();
    const accent = () => page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--color-accent"));
    const was = await accent();
    writeFileSync(file, before.replace("title: Tea room", 'title: Coffee room\naccent: "#3377ee"\nexamples: ["Is there espresso?"]').replace("Takes orders", "Takes and brings orders"));
    await expect.poll(() => described(server.url)).toContain("espresso");
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.getByRole("heading", { level: 2, name: "Coffee room" }).waitFor();
    await page.getByText("Takes and brings orders").waitFor();
    await page.getByRole("button", { name: "Is there espresso?" }).waitFor();
    await expect.poll(() => page.title()).toBe("Coffee room");
    await expect.poll(accent).not.toBe(was);
    expect(await page.locator('link[href*="look.css"]').count()).toBe(1);
    expect(browser.complaints).toEqual([]);
  } finally {
    await browser.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});

test.runIf(!process.env["PARLEY_URL"])("a mistake in an app is shown on its page, which goes on as it was", async () => {
  const folder = temporary();
  cpSync(join(import.meta.dirname, "../../examples/page/apps"), join(folder, "apps"), { recursive: true });
  const server = await startServer({ data: join(folder, "data"), apps: join(folder, "apps"), pace: "1ms" });
  const file = join(folder, "apps/order/app.yaml");
  const right = readFileSync(file, "utf8");
  try {
    writeFileSync(file, right.replace("prompt: waiter.md", "prompt: waiters.md"));
    await expect.poll(() => described(server.url)).toContain("has mistakes");
    for (const [theme, name, size] of [["dark", "phone", phone], ["light", "desktop", { width: 1440, height: 900 }]] as const) {
      const browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
      const { page } = browser;
      await page.addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
      await page.goto(`${server.url}/apps/order/`);
      const notice = page.getByRole("note").filter({ hasText: "has mistakes" });
      await notice.waitFor();
      expect(await notice.innerText()).toMatch(/app\.yaml:\d+: agents\.waiter\.prompt: .*waiters\.md/);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
      await parts(page).ask("Tea, please");
      await page.locator("main [data-interaction]").getByText("Which tea?").first().waitFor();
      await browser.shot(`broken-${theme}-${name}`);
      expect(await violations(page)).toEqual([]);
      expect(browser.complaints).toEqual([]);
      await browser.close();
    }
    writeFileSync(file, right);
    await expect.poll(() => described(server.url)).not.toContain("has mistakes");
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
