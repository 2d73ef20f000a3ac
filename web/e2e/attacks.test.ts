// Answers that were written to break the page, in a real browser: the page shows each of them and can still be used.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { attacks } from "../src/testing/attacks.ts";
import { desktop, parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { answered } from "./logs.ts";
import { Stage } from "./stage.ts";

let server: Server;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  server = await startServer();
  stage = await Stage.before(server.url);
  browser = await startBrowser(desktop);
  await page().addInitScript(() => {
    const w = window as unknown as { longest: number };
    w.longest = 0;
    new PerformanceObserver((list) => {
      for (const e of list.getEntries()) w.longest = Math.max(w.longest, e.duration);
    }).observe({ type: "longtask" });
  });
});
afterAll(async () => {
  await browser.close();
  await stage.close();
  await server.stop();
});
afterEach(async () => {
  await page().goto("about:blank");
  expect(browser.complaints.splice(0)).toEqual([]);
});

const page = () => browser.page;

/** The text or a link to it is shown, typed characters arrive, and the page is no wider than the window. */
async function isUsable(): Promise<void> {
  const p = parts(page());
  await p.last.getByText(/end|Show more/).first().waitFor();
  await p.done();
  await p.input.fill("still here");
  expect(await p.send.isEnabled()).toBe(true);
  await p.input.fill("");
  expect(await page().evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
}

const slug = (name: string): string => name.replaceAll(/\W+/g, "-");

/** The longest time in which the page did not react, in ms. */
const longestTask = () => page().evaluate(() => (window as unknown as { longest: number }).longest);

describe("an answer", () => {
  test.each(Object.entries(attacks))("of %s", async (name, make) => {
    const id = stage.put("chaos", answered(slug(name), [["What is this?", make()], ["And then?", "All is well, end."]]));
    await page().goto(`${stage.url}/apps/chaos/#/${id}`);
    await isUsable();
    await page().locator("article").first().locator(".prose").getByText(/end|Show more/).first().waitFor();
    // Measured on two busy cores: 0.7 s at most. Link definitions took 51 s before they were limited.
    expect(await longestTask()).toBeLessThan(10_000);
  });

  test.each(["quotes in quotes", "definitions of links", "a long list", "a long block of code", "millions of characters"])("that comes as %s, piece by piece", async (name) => {
    const text = attacks[name]?.() ?? "";
    const turn = `T-in-flight-${slug(name)}-0`;
    const id = stage.put("chaos", answered(`in-flight-${slug(name)}`, [["What is this?"]]));
    await page().goto(`${stage.url}/apps/chaos/#/${id}`);
    await parts(page()).stop.waitFor();
    await expect.poll(() => stage.followers(id)).toBe(1);
    const size = Math.ceil(text.length / 100);
    for (let n = 0; n < 100; n++) stage.delta({ session: id, turn, agent: "interface", call: "m0", n: n + 1, text: text.slice(n * size, (n + 1) * size) });
    await page().locator(".prose").waitFor();
    const usage = { input_tokens: 1, output_tokens: 1 };
    stage.append(id, [
      { turn, agent: "interface", type: "model.replied", data: { call: "m0", model: "scripted", parts: [{ type: "text", text }], usage } },
      { turn, type: "turn.completed", data: { response: { message: text }, usage } },
    ]);
    await isUsable();
  });
});

test("an answer that the renderer fails at is shown as it was written, and the others are drawn", async () => {
  const question = "What is this?";
  const other = await page().context().newPage();
  const said: string[] = [];
  other.on("console", (m) => said.push(m.text()));
  // A renderer that fails at one text. Whatever its first step is, it begins with replacing what has no place in a text.
  await other.addInitScript(() => {
    Error.stackTraceLimit = 50;
    const real = String.prototype.replace;
    String.prototype.replace = function (this: string, ...args: Parameters<typeof real>) {
      if (this.includes("It is **broken**") && new Error().stack?.includes("/assets/markdown-")) throw new Error("the renderer fails");
      return real.apply(this, args);
    } as typeof real;
  });
  const id = stage.put("chaos", answered("undrawable", [[question, "It is **fine**."], [question, "It is **broken**."], [question, "All is **well**, end."]]));
  await other.goto(`${stage.url}/apps/chaos/#/${id}`);
  await parts(other).done();
  await other.locator("article").getByText("It is **broken**.").waitFor();
  expect(await other.locator("article .prose strong").allTextContents()).toEqual(["fine", "well"]);
  expect(said.join()).toContain("the renderer fails"); // React reports what it caught
  await other.close();
});

test("if the renderer cannot be loaded, answers show their source", async () => {
  await page().route("**/assets/markdown-*.js", (route) => route.abort());
  const id = stage.put("chaos", answered("unloaded", [["What is this?", "It is **bold**."]]));
  await page().goto(`${stage.url}/apps/chaos/#/${id}`);
  await parts(page()).last.getByText("It is **bold**.").waitFor();
  const p = parts(page());
  await p.input.fill("still here");
  expect(await p.send.isEnabled()).toBe(true);
  browser.complaints.length = 0; // the browser reports resources that it could not load
});
