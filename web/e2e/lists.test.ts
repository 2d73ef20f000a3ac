// Lists with more pages than are read at first, and an answer that the page fails to draw. The rest of the page
// stays, in a real browser.

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";

import type { SessionInfo } from "../src/api/types.gen.ts";
import { desktop, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { answered } from "./logs.ts";
import { Stage } from "./stage.ts";

let server: Server;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  server = await startServer();
  stage = await Stage.before(server.url);
  browser = await startBrowser(desktop);
});
afterAll(async () => {
  await browser.close();
  await stage.close();
  await server.stop();
});
afterEach(async () => {
  await page().goto("about:blank"); // otherwise the next session would open in the same document
  await page().unrouteAll();
});

const page = () => browser.page;

test("the list of sessions is read on when it is scrolled to its end", async () => {
  const usage = { input_tokens: 0, output_tokens: 0 };
  const all = Array.from({ length: 250 }, (_, i): SessionInfo => ({
    id: `S${i}`, app: "home", user: "local", title: `Talk ${i}`, status: "active", busy: "reject", created_at: "2026-11-20T10:00:00Z",
    updated_at: "2026-11-20T10:00:00Z", version: 1, waiting: 0, totals: { turns: 1, steps: 1, tool_calls: 0, usage },
  }));
  const asked: string[] = [];
  await page().route(/\/v1\/sessions\?/, async (route) => {
    const url = new URL(route.request().url());
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const to = from + Number(url.searchParams.get("limit"));
    asked.push(String(from));
    await route.fulfill({ json: { sessions: all.slice(from, to), ...(to < all.length && { next: String(to) }) } });
  });
  await page().goto(`${stage.url}/apps/home/`);
  const rows = page().locator("[data-session]");
  await expect.poll(() => rows.count()).toBe(100);
  expect(new Set(asked)).toEqual(new Set(["0"]));
  await rows.last().scrollIntoViewIfNeeded();
  await expect.poll(() => rows.count()).toBe(200);
  await rows.last().scrollIntoViewIfNeeded();
  await expect.poll(() => rows.count()).toBe(250);
  expect(await page().getByText("Reading more…").count()).toBe(0);
  expect(browser.complaints.splice(0)).toEqual([]);
});

/** Makes drawing fail for a text that is this word. */
async function failAt(word: string): Promise<void> {
  await page().addInitScript((word) => {
    const index = String.prototype.indexOf;
    const trim = String.prototype.trim;
    String.prototype.indexOf = function (...args) {
      if (String(this) === `https://${word}.test/`) throw new Error(word);
      return index.apply(this, args);
    };
    String.prototype.trim = function () {
      if (String(this) === word) throw new Error(word);
      return trim.apply(this);
    };
  }, word);
}

test("a piece of an answer that cannot be drawn is shown as it was written, and the others as ever", async () => {
  await failAt("kaputt");
  const answer = "The **first** part.\n\n```\ncode\n```\n\nThe [second](https://kaputt.test/) part.\n\n```\ncode\n```\n\nThe **third** part.";
  const id = stage.put("chaos", answered("piece", [["What?", answer]]));
  await page().goto(`${stage.url}/apps/chaos/#/${id}`);
  const prose = page().locator("article .prose");
  await prose.getByText("[second](https://kaputt.test/)").waitFor();
  expect(await prose.locator("strong").allInnerTexts()).toEqual(["first", "third"]);
  browser.complaints.splice(0);
});

test("an answer that cannot be drawn at all leaves the others and the input", async () => {
  await failAt("entzwei");
  const events = answered("whole", [["One?", "The first answer."], ["Two?", "The second answer."], ["Three?", "The third answer."]]);
  const broken = events.find((e) => e.type === "model.replied" && JSON.stringify(e.data).includes("second"));
  if (broken?.type !== "model.replied") throw new Error("there is no second answer");
  broken.data.warning = "entzwei";
  const id = stage.put("chaos", events);
  await page().goto(`${stage.url}/apps/chaos/#/${id}`);
  await page().getByText("The third answer.").waitFor();
  expect(await page().locator("article").allInnerTexts()).toEqual([
    expect.stringContaining("The first answer."),
    expect.stringContaining("This answer cannot be shown. It is in the log."),
    expect.stringContaining("The third answer."),
  ]);
  await page().getByRole("textbox").first().fill("still here");
  browser.complaints.splice(0);
});
