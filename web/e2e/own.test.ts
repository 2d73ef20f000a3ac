// The page that the example app brings, at an origin of its own: it talks to its app by /parley/client.js, through the
// death of the server, and reaches nothing else.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { phone, startBrowser, startServer, temporary, type Server } from "./harness.ts";

const data = temporary();
const apps = join(import.meta.dirname, "../../examples/page/apps");
let server: Server;

const pageOf = (app: string) => server.url.replace("127.0.0.1", `${app}.localhost`);

describe.runIf(!process.env["PARLEY_URL"])("a page of one's own", () => {
  beforeAll(async () => {
    server = await startServer({ data, apps, pace: "60ms" });
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(data, { recursive: true, force: true });
  });

  test("talks to its app, and goes on when the server was killed in the middle of an answer", async () => {
    const browser = await startBrowser({ width: 1024, height: 800 });
    const { page } = browser;
    await page.goto(`${pageOf("order")}/`);
    await page.getByLabel("Your order").fill("Tea, please");
    await page.keyboard.press("Enter");
    await page.getByRole("group", { name: "Which tea?" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await browser.shot("own-question");
    await page.getByRole("button", { name: "Sencha" }).click();
    await page.getByText("One Sencha, coming").waitFor();
    const addr = new URL(server.url).host;
    await server.kill?.();
    await page.getByText("The server is away").waitFor();
    await browser.shot("own-away");
    server = await startServer({ data, apps, addr, pace: "1ms" });
    await page.getByText("sit at the window.").waitFor();
    await page.getByText("A script answered").waitFor();
    expect(await page.locator("#turns li").count()).toBe(1);
    expect((await page.locator("#turns").innerText()).match(/One Sencha/g)?.length).toBe(1);
    await page.reload();
    await page.getByText("sit at the window.").waitFor();
    await browser.shot("own-done");
    expect(browser.complaints).toEqual([]);
    await browser.close();
  });

  test.each(["dark", "light"] as const)("can be read on a phone, in the %s, and stops an answer", async (colorScheme) => {
    const browser = await startBrowser(phone, { touch: true, reducedMotion: true });
    const { page } = browser;
    await page.emulateMedia({ colorScheme });
    await page.goto(`${pageOf("order")}/`);
    await page.getByLabel("Your order").fill("Tea, please");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Assam" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await browser.shot(`own-${colorScheme}-phone`);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator("li[data-status=cancelled]").waitFor();
    await expect.poll(() => page.getByRole("button", { name: "Assam" }).count()).toBe(0);
    await browser.close();
  });

  test("reaches its app alone, and our pages do not answer it", async () => {
    const browser = await startBrowser({ width: 1024, height: 800 }, { worker: true });
    const { page } = browser;
    await page.goto(`${pageOf("order")}/`);
    await page.getByLabel("Your order").waitFor();
    const ask = (path: string, method = "GET") =>
      page.evaluate(
        async ([path, method]) =>
          fetch(path as string, { method: method as string, ...(method === "POST" && { body: "{}", headers: { "Content-Type": "application/json" } }) }).then(
            (r) => r.status,
            (e: Error) => e.name,
          ),
        [path, method],
      );
    expect(await ask("/v1/sessions?app=order")).toBe(200);
    expect(await ask("/v1/sessions")).toBe(403);
    expect(await ask("/v1/sessions?app=chaos")).toBe(403);
    expect(await ask("/apps/order/")).toBe(404);
    expect(await ask(`${server.url}/v1/sessions`)).toBe("TypeError");
    expect(await ask(`${server.url}/v1/sessions`, "POST")).toBe("TypeError");
    expect(await ask("http://127.0.0.1:9/")).toBe("TypeError");
    expect(await page.evaluate(() => navigator.serviceWorker.register("/page.js").then(() => "registered", (e: Error) => e.name))).not.toBe("registered");
    // The server's own page is at another origin than the app's page, so their storage is separate, too.
    await page.evaluate(() => localStorage.setItem("parley.theme", "stolen"));
    await page.goto(`${server.url}/apps/order/`);
    await page.getByRole("textbox", { name: "Message" }).waitFor();
    expect(await page.evaluate(() => localStorage.getItem("parley.theme"))).not.toBe("stolen");
    await browser.close();
  });
});
