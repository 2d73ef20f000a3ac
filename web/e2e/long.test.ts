// Opening a session of thousands of turns, or of one turn with thousands of events, reads no more than opening a short one.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { desktop, parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { fill, worked } from "./filled.ts";
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

/** What the page reads of a session, as the browser counts it. */
async function readsOf(id: string) {
  const cdp = await browser.context.newCDPSession(page());
  const ours = new Map<string, string>();
  let bytes = 0;
  await cdp.send("Network.enable");
  cdp.on("Network.requestWillBeSent", (r) => r.request.url.includes(id) && ours.set(r.requestId, r.request.url));
  cdp.on("Network.dataReceived", (r) => (bytes += ours.has(r.requestId) ? r.dataLength : 0));
  return {
    bytes: () => bytes,
    urls: () => [...ours.values()],
    heap: async () => {
      await cdp.send("HeapProfiler.collectGarbage");
      return (await cdp.send("Runtime.getHeapUsage")).usedSize;
    },
  };
}

test("a session of 10,000 events opens at its end, reads back by cursor, and goes on", async () => {
  const calls = [3, 2, 4, 1980, 12];
  const log = worked("chaos", calls);
  expect(log.length).toBeGreaterThan(10_000);
  const size = log.reduce((n, e) => n + JSON.stringify(e).length, 0);
  const id = await fill(server.url, log);
  const p = parts(page());
  await page().goto(`${server.url}/apps/chaos/`); // the page itself
  await p.input.waitFor();
  const reads = await readsOf(id);
  const empty = await reads.heap();
  const begun = Date.now();
  await page().evaluate((to) => (location.hash = to), `#/${id}`);
  await p.last.getByText("Answer 4.").waitFor();
  await p.done();
  const shown = Date.now() - begun;
  const heap = (await reads.heap()) - empty;
  console.log(`10,000 events: answer shown after ${shown} ms, ${Math.round(reads.bytes() / 1024)} KB of ${Math.round(size / 1024)} KB read, heap +${(heap / 2 ** 20).toFixed(1)} MB`);
  expect(reads.bytes()).toBeLessThan(size / 8);
  expect(heap, "bytes of memory").toBeLessThan(6 * 2 ** 20);

  // The long turn began long before what was read. Its steps before that are read from where it was cut, a part at a time.
  const long = page().locator("article", { hasText: "Question 3?" });
  await long.getByRole("button", { name: /Thought process.*more than/ }).click();
  const steps = long.locator("section li");
  const earlier = long.getByRole("button", { name: "Earlier steps" });
  let before = 0;
  for (let n = 0; n < 3; n++) {
    before = await steps.count();
    await earlier.click();
    await expect.poll(() => steps.count()).toBeGreaterThan(before);
  }
  expect(await steps.count()).toBeLessThan(2000);
  const cursors = () => reads.urls().flatMap((u) => new URL(u).searchParams.get("after") ?? []).map(Number);
  const middle = () => cursors().filter((after) => after > 100 && after < 8000);
  expect(middle(), "most of the long turn is not read").toEqual([]);
  await long.getByRole("button", { name: /Thought process/ }).click();

  // Older turns come when the reader scrolls up; the first steps of the long one stay where they are.
  const first = page().locator("article", { hasText: "Question 0?" });
  await expect.poll(async () => {
    await page().getByRole("region", { name: "Conversation" }).evaluate((e) => e.scrollTo(0, 0));
    return first.count();
  }).toBe(1);
  expect(await page().locator("article .prose").allInnerTexts()).toEqual(calls.map((_, i) => expect.stringContaining(`Answer ${i}.`)));
  expect(cursors()).toContain(0); // the three short turns before the long one
  expect(middle()).toEqual([]);
  expect(reads.bytes()).toBeLessThan(size / 3);

  // It goes on, is taken back, and comes back.
  await p.ask("How should we implement login?");
  await expect.poll(() => p.answers.count()).toBe(6);
  await p.done();
  const back = (question: string) => page().locator("article", { hasText: question }).getByRole("button", { name: "Go back to before this message" });
  const dialog = page().getByRole("dialog");
  await back("Question 4?").focus();
  await page().keyboard.press("Enter");
  await dialog.getByRole("heading", { name: "2 messages are taken back" }).waitFor();
  await dialog.getByRole("button", { name: "Go back" }).click();
  await expect.poll(() => p.answers.count()).toBe(4);
  await page().reload();
  await p.last.getByText("Answer 3.").waitFor();
  await page().getByRole("button", { name: "Undo going back" }).click();
  await dialog.getByRole("button", { name: "Undo it" }).click();
  await expect.poll(() => p.last.getByText("How should we implement login?").count()).toBeGreaterThan(0);
});
