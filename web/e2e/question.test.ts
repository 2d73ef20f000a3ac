// A question from home's assistant, and then a permission, on the real server with its simulated house. They come up
// on a desktop and are answered on a phone.

import { rmSync } from "node:fs";

import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const wish = "Turn on the bedroom light.";
const asks = "Which one shall I turn on?";

let server: Server;
let data: string;
let desk: Browser;
let hand: Browser;

beforeEach(async () => {
  data = temporary();
  onTestFinished(() => rmSync(data, { recursive: true, force: true }));
  server = await startServer({ data, pace: "2ms" });
  desk = await startBrowser({ width: 1440, height: 900 });
  hand = await startBrowser(phone, { touch: true });
});
afterEach(async () => {
  const complaints = [...desk.complaints, ...hand.complaints];
  await desk.close();
  await hand.close();
  await server.stop();
  expect(complaints).toEqual([]);
});

const open = (b: Browser, hash = "") => b.page.goto(`${server.url}/apps/home/${hash}`);
/** A card in the chat: n = 0 is the first. */
const card = (b: Browser, n = 0) => b.page.locator("main [data-interaction]").nth(n);
const wider = (b: Browser) => b.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
/** Opens the waiting turn on the phone, from the inbox. */
async function fromInbox(): Promise<void> {
  await open(hand);
  await hand.page.locator("[data-badge]").waitFor();
  await hand.page.getByRole("button", { name: /^Inbox: 1 question waits/ }).tap();
  await hand.page.getByRole("dialog", { name: "Waits for you" }).getByRole("link").first().tap();
  await card(hand).waitFor();
}

describe.runIf(!process.env["PARLEY_URL"])("a wish that fits several things", () => {
  test("is asked about on the desktop and answered on the phone; the permission too", async () => {
    const p = parts(desk.page);
    await open(desk);
    await p.ask(wish);
    await card(desk).getByRole("heading", { name: asks }).waitFor();
    await expect.poll(() => desk.page.getByRole("log").innerText()).toMatch(/Your answer is needed: Which one/);
    expect(await card(desk).getByRole("checkbox").count()).toBe(5);
    await desk.shot("question-desktop");

    await open(hand);
    await hand.page.locator("[data-badge]").waitFor();
    await hand.shot("question-phone-badge");
    await hand.page.getByRole("button", { name: /^Inbox: 1 question waits/ }).tap();
    const inbox = hand.page.getByRole("dialog", { name: "Waits for you" });
    await inbox.getByRole("heading", { name: asks }).waitFor();
    await hand.shot("question-phone-inbox");
    expect(await wider(hand)).toBe(false);
    await inbox.getByRole("link").first().tap();
    await expect.poll(() => hand.page.evaluate(() => document.activeElement?.getAttribute("data-interaction"))).toBe("question");
    const answer = card(hand).getByRole("button", { name: "Answer" });
    expect(await answer.isDisabled()).toBe(true);
    await card(hand).getByText("Bedside left", { exact: true }).tap();
    await card(hand).getByText("Bedside right", { exact: true }).tap();
    await hand.shot("question-phone-chosen");
    expect(await wider(hand)).toBe(false);
    await answer.tap();

    await expect.poll(() => card(desk).innerText()).toMatch(/^Answered · Which one shall I turn on\? · just now\s+Bedside left, Bedside right$/);
    // The permission names both, and appears on both pages.
    for (const b of [desk, hand]) {
      await card(b, 1).getByRole("button", { name: "Allow once" }).waitFor();
      expect(await card(b, 1).getByRole("heading").innerText()).toBe("Turn on Bedside left and Bedside right?");
      expect(await card(b, 1).locator("[data-detail]").innerText()).toBe("light.turn_on on light.bedroom_bedside_left, light.bedroom_bedside_right");
    }
    await desk.shot("question-desktop-permission");
    await hand.shot("question-phone-permission");
    await card(hand, 1).getByRole("button", { name: "Allow once" }).tap();
    await p.done();
    await parts(hand.page).done();
    expect(await card(desk, 1).innerText()).toMatch(/Allowed once/);
    for (const b of [desk, hand]) expect(await parts(b.page).last.locator(".prose").innerText()).toMatch(/Done: the bedside left is on now[\s\S]*Done: the bedside right is on now/);
    for (const id of ["light.bedroom_bedside_left", "light.bedroom_bedside_right"]) {
      await expect.poll(() => desk.page.locator(`[data-entity="${id}"]`).innerText()).toMatch(/On/);
    }
    await expect.poll(() => desk.page.locator("[data-badge]").count()).toBe(0);
    await desk.shot("question-desktop-done");
    await hand.shot("question-phone-done");
    expect(await wider(hand)).toBe(false);
  });

  test("waits through a kill of the server, and own words change nothing", async () => {
    const p = parts(desk.page);
    await open(desk);
    await p.ask(wish);
    await card(desk).getByRole("heading", { name: asks }).waitFor();
    await server.kill?.();
    server = await startServer({ data, addr: server.url.replace("http://", ""), pace: "2ms" });
    await fromInbox();
    await card(hand).getByRole("textbox", { name: `Your own words for: ${asks}` }).fill("the one that hums at night, and only if nobody sleeps there by now");
    await hand.shot("question-phone-words");
    await card(hand).getByRole("button", { name: "Answer" }).tap();
    await p.done();
    await parts(hand.page).done();
    expect(await card(desk).innerText()).toMatch(/Answered[\s\S]*the one that hums at night/);
    expect(await p.last.locator(".prose").innerText()).toMatch(/Nothing was changed\.[\s\S]*the one that hums at night/);
    await desk.shot("question-desktop-words");
    await hand.shot("question-phone-words-done");
  });

  test("may be skipped, and nothing is changed", async () => {
    await desk.page.addInitScript(() => localStorage.setItem("parley.theme", "light"));
    const p = parts(desk.page);
    await open(desk);
    await p.ask(wish);
    await card(desk).getByRole("heading", { name: asks }).waitFor();
    await desk.shot("question-light");
    await fromInbox();
    await card(hand).getByRole("button", { name: "Skip" }).tap();
    await p.done();
    await parts(hand.page).done();
    expect(await card(desk).innerText()).toMatch(/^Skipped · Which one shall I turn on\?/);
    expect(await p.last.locator(".prose").innerText()).toMatch(/Nothing was changed, because nothing was chosen/);
    await desk.shot("question-light-skipped");
    await hand.shot("question-phone-skipped");
  });
});
