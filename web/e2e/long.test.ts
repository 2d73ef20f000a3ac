// Opening a session of thousands of turns reads no more than opening a short one.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { desktop, parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { answered } from "./logs.ts";
import { Stage } from "./stage.ts";

let server: Server;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  stage = await Stage.before(server.url);
  browser = await startBrowser(desktop);
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  await stage.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const talk = (turns: number) => answered(`turns-${turns}`, Array.from({ length: turns }, (_, i) => [`Question ${i}?`, `Answer ${i}. ${"It is long. ".repeat(20)}`] as const));

test("a session of 10,000 turns opens like one of 10, and loads as far as requested", async () => {
  const p = parts(page());
  const sent: Record<number, { events: number; requests: number }> = {};
  for (const turns of [10, 10_000]) {
    const id = stage.put("chaos", talk(turns));
    const before = stage.eventsSent;
    let requests = 0;
    const count = (r: { url(): string }) => r.url().includes(id) && requests++;
    page().on("request", count);
    await page().goto("about:blank");
    await page().goto(`${stage.url}/apps/chaos/#/${id}`);
    await p.last.getByText(`Answer ${turns - 1}.`).waitFor();
    await p.done();
    sent[turns] = { events: stage.eventsSent - before, requests };
    page().off("request", count);
  }
  // Enough for the list's first screens: a window of the last turns, and the page before it.
  expect(sent[10_000]?.events).toBeLessThan(150);
  expect(sent[10_000]?.requests).toBeLessThanOrEqual((sent[10]?.requests ?? 0) + 12);

  // Read upwards: turns that have been read stay in place.
  const shown = page().locator("article", { hasText: "Question 9990?" });
  await expect.poll(async () => {
    await page().getByRole("region", { name: "Conversation" }).evaluate((e) => e.scrollTo(0, 0));
    return shown.count();
  }).toBe(1);
  const list = page().locator("article");
  // In one step, since the page before may arrive at any moment.
  const { drawn, name } = await page().getByRole("region", { name: "Conversation" }).evaluate((e) => {
    e.scrollTo(0, 100);
    const all = e.ownerDocument.querySelectorAll("article");
    return { drawn: all.length, name: /Question \d+\?/.exec(all[0]?.innerText ?? "")?.[0] ?? "" };
  });
  await expect.poll(() => list.count()).toBeGreaterThan(drawn);
  const kept = list.filter({ hasText: name });
  await expect.poll(() => kept.evaluate((e) => e.getBoundingClientRect().top < innerHeight && e.getBoundingClientRect().bottom > 0)).toBe(true);
});
