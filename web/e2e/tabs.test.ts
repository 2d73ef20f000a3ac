// More tabs of one browser than it opens connections: six to one host, over all tabs.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Page, Request } from "playwright-core";

import { parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";

const asks = "Which one shall I turn on?";

let server: Server;
let browser: Browser;

beforeEach(async () => {
  server = await startServer({ pace: "2ms" });
  browser = await startBrowser({ width: 1440, height: 900 });
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  await server.stop();
  expect(complaints).toEqual([]);
});

const card = (p: Page) => p.locator("main [data-interaction]").first();
const answer = async (p: Page, which: string) => {
  await card(p).getByText(which, { exact: true }).click();
  await card(p).getByRole("button", { name: "Answer" }).click();
};

describe.runIf(!process.env["PARLEY_URL"])("eight tabs that are all visible", () => {
  test("show a question and its answer, and the second to answer is told", async () => {
    const first = browser.page;
    /** The streams that are open now, and their tabs. */
    const open = new Map<Request, Page>();
    let most = 0;
    const streams = () => [...open.values()].filter((tab) => !tab.isClosed()).length;
    const stream = /\/events\?after=|\/entities\/stream/;
    browser.context.on("request", (r) => {
      if (!stream.test(r.url())) return;
      open.set(r, r.frame().page());
      most = Math.max(most, streams());
    });
    const ended = (r: Request) => void open.delete(r);
    browser.context.on("requestfailed", ended);
    browser.context.on("requestfinished", ended);
    await first.goto(`${server.url}/apps/home/`);
    await parts(first).ask("Turn on the bedroom light.");
    await card(first).getByRole("heading", { name: asks }).waitFor();
    const tabs: Page[] = [first];
    while (tabs.length < 8) {
      const tab = await browser.context.newPage();
      await tab.goto(first.url());
      await card(tab).getByRole("heading", { name: asks }).waitFor();
      await tab.locator("[data-entity]").first().waitFor();
      tabs.push(tab);
    }
    expect(most).toBeLessThanOrEqual(4);

    // The seventh tab has no stream. It does not learn of the last tab's answer before it has sent an answer, too.
    const [late, last] = tabs.slice(-2) as [Page, Page];
    let hear = () => {};
    const heard = new Promise<void>((done) => (hear = done));
    await late.route(/\/events\?/, async (r) => {
      await heard;
      await r.continue();
    });
    await answer(last, "Bedside left");
    for (const tab of [...tabs.slice(0, 6), last]) await expect.poll(() => card(tab).innerText()).toMatch(/^Answered[\s\S]*Bedside left$/);
    await answer(late, "Bedside right");
    await expect.poll(() => card(late).innerText()).toMatch(/Your answer came too late\.[\s\S]*answered/);
    hear();
    await expect.poll(() => card(late).innerText()).toMatch(/^Answered[\s\S]*Bedside left[\s\S]*came too late: the first one counts/);

    // The rest of the turn: the permission is asked in all tabs, and given in one without a stream.
    await last.getByRole("button", { name: "Allow once" }).click();
    for (const tab of tabs) await parts(tab).done();
    for (const tab of [first, last]) expect(await parts(tab).last.locator(".prose").innerText()).toMatch(/the bedside left is on now/);
    await expect.poll(() => last.locator('[data-entity="light.bedroom_bedside_left"]').innerText()).toMatch(/On/);
    expect(most).toBeLessThanOrEqual(4);

    // When those with streams are closed, others get theirs.
    for (const tab of tabs.slice(0, 6)) await tab.close();
    await expect.poll(streams).toBe(3);
    await parts(late).ask("Is anyone home?");
    await parts(late).done();
    await expect.poll(() => parts(last).answers.count()).toBe(await parts(late).answers.count());
  });
});
