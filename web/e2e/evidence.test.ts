// The sources of an answer's figures, on the real server with its simulated house: a chart drawn from the values, and
// figures and sources that link to their point in the chart or to their line in the log.

import { readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";

import type { AxeResults } from "axe-core";
import type { Locator } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import type { Event } from "../src/api/types.gen.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { Stage } from "./stage.ts";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const question = "Why did the bedroom lights flicker last night?";

let server: Server;
let data: string;
let browser: Browser;
let session: string;

beforeAll(async () => {
  data = temporary();
  server = await startServer({ data, pace: "5ms" });
  const post = async (path: string, body: unknown) =>
    (await fetch(`${server.url}/v1/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json() as Promise<{ id: string }>;
  session = (await post("sessions", { app: "home" })).id;
  const turn = await post(`sessions/${session}/turns`, { message: question });
  const ended = (await post(`turns/${turn.id}/await`, { timeout_ms: 60_000 })) as unknown as { status: string };
  expect(ended.status).toBe("completed");
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
const chart = () => page().locator("figure[data-plot]");
const point = () => chart().locator("[data-point]");
const status = () => chart().getByRole("status").innerText();
const marked = () => page().evaluate(() => [...(CSS.highlights.get("evidence") ?? [])].join());

/** Whether an element is in the visible part of the conversation. */
const seen = (l: Locator) =>
  l.evaluate((e) => {
    const box = document.querySelector("[aria-label=Conversation]")?.getBoundingClientRect();
    const r = e.getBoundingClientRect();
    return box !== undefined && r.top >= box.top - 1 && r.top <= box.bottom;
  });

async function open(id = session, at = server.url): Promise<void> {
  await page().goto(`${at}/apps/home/#/${id}`);
  await parts(page()).done();
  await chart().locator("canvas").first().waitFor();
}

describe.runIf(!process.env["PARLEY_URL"]).each(["dark", "light"])("in the %s", (theme) => {
  test.each([
    ["desktop", { width: 1440, height: 900 }],
    ["phone", phone],
  ])("a chart is drawn, and can be read: %s", async (name, size) => {
    browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
    await page().addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
    await open();
    await chart().scrollIntoViewIfNeeded();
    await chart().evaluate((e) => e.scrollIntoView({ block: "start" }));
    await browser.shot(`evidence-${theme}-${name}`);
    expect(await chart().locator("[data-series]").evaluateAll((all) => all.map((e) => e.getAttribute("data-series")))).toContain("sensor.mains_voltage_l1");
    expect(await page().evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await page().evaluate(axe);
    const found = await page().evaluate(async () => (await (window as unknown as { axe: { run(o: unknown): Promise<AxeResults> } }).axe.run({ runOnly: ["wcag2a", "wcag2aa"] })).violations);
    expect(found.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.any[0]?.message ?? ""}`))).toEqual([]);
    const folded = page().locator("details.evidence summary");
    if (await folded.count()) await folded.first().click();
    await page().locator(".lead", { hasText: /196/ }).first().click();
    await point().waitFor();
    await expect.poll(() => seen(point())).toBe(true);
    await browser.shot(`evidence-${theme}-${name}-point`);
    await chart().getByRole("button", { name: "In the log" }).click();
    await page().locator("[data-wanted]").waitFor();
    await expect.poll(marked).not.toBe("");
    await browser.shot(`evidence-${theme}-${name}-log`);
    await chart().getByRole("button", { name: "As a table" }).click();
    await page().getByRole("dialog").waitFor();
    await browser.shot(`evidence-${theme}-${name}-table`);
  });
});

describe.runIf(!process.env["PARLEY_URL"])("under two fingers", () => {
  test.each([
    ["side by side", 1, 0],
    ["one above the other", 0, 1],
  ])("a chart is zoomed, and the page stays where it is: %s", async (_, dx, dy) => {
    browser = await startBrowser(phone, { touch: true, reducedMotion: true });
    await open();
    const group = chart().getByRole("group");
    await group.evaluate((e) => e.scrollIntoView({ block: "center" }));
    const box = await group.boundingBox();
    if (!box) throw new Error("there is no chart");
    const scrolled = () => page().getByRole("region", { name: "Conversation" }).evaluate((e) => e.scrollTop);
    const before = await scrolled();
    const hand = await page().context().newCDPSession(page());
    const at = { x: box.x + box.width * 0.6, y: box.y + box.height * 0.4 };
    const touch = (type: "touchStart" | "touchMove", apart: number) =>
      hand.send("Input.dispatchTouchEvent", {
        type,
        touchPoints: [-1, 1].map((side, id) => ({ id, x: at.x + side * apart * dx, y: at.y + side * apart * dy })),
      });
    await touch("touchStart", 20);
    for (const apart of [25, 30, 40, 50, 60]) await touch("touchMove", apart);
    await hand.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    await chart().getByRole("button", { name: "Show the whole time" }).waitFor();
    expect(await scrolled()).toBe(before);
  });
});

describe.runIf(!process.env["PARLEY_URL"])("what an answer says", () => {
  beforeEach(async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
  });

  const source = (name: string) => page().getByRole("list", { name: "Sources" }).getByRole("button", { name });

  test("a source leads to its point in the chart, and from there to its line in the log", async () => {
    await open();
    await source("Mains meter Voltage L1").click();
    await point().waitFor();
    await expect.poll(() => seen(point())).toBe(true);
    expect(await status()).toMatch(/2[23]:\d\d:\d\d · Mains meter Voltage L1 · 20?1?9?\d*(\.\d)? V/);
    const clock = /\d\d:\d\d:\d\d/.exec(await status())?.[0];
    await chart().getByRole("button", { name: "In the log" }).click();
    const row = page().locator("[data-wanted]");
    await row.waitFor();
    expect(await row.getAttribute("data-step")).toBe("tool_result");
    await expect.poll(marked).toContain(clock);
    await expect.poll(() => page().evaluate(() => document.activeElement?.hasAttribute("data-wanted"))).toBe(true);
    await expect.poll(() =>
      page().evaluate(() => {
        const range = [...(CSS.highlights.get("evidence") ?? [])][0] as Range | undefined;
        const box = document.querySelector("[aria-label=Conversation]")?.getBoundingClientRect();
        const at = range?.getBoundingClientRect();
        return box !== undefined && at !== undefined && at.top >= box.top && at.bottom <= box.bottom;
      }),
    ).toBe(true);

    await page().reload();
    await parts(page()).done();
    await source("Heat pump Power").click();
    await point().waitFor();
    expect(await status()).toMatch(/Heat pump Power · [34],\d{3} W/);
  });

  test("a figure that no chart has leads to the line that says it, and the keyboard goes there, too", async () => {
    await open();
    const said = page().locator(".prose .lead", { hasText: /^\d+ times/ }).first();
    const text = await said.innerText();
    await said.focus();
    await page().keyboard.press("Enter");
    await expect.poll(marked).toBe(text);
    expect(await page().locator("[data-wanted]").innerText()).toContain(text);
  });

  test("a chart is zoomed and moved by wheel, hand and keyboard, and shows all again; a page that is scrolled over it goes on", async () => {
    await open();
    const all = await status();
    const group = chart().getByRole("group");
    await group.evaluate((e) => e.scrollIntoView({ block: "center" }));
    const box = await group.boundingBox();
    if (!box) throw new Error("there is no chart");
    await page().mouse.move(box.x + box.width * 0.8, box.y + 120);
    await expect.poll(status).toMatch(/\d\d:\d\d:\d\d$/);
    const width = async () => {
      await page().mouse.move(5, 5);
      return (await status()).replace(/\s+/g, " ");
    };
    const before = await page().getByRole("region", { name: "Conversation" }).evaluate((e) => e.scrollTop);
    await page().mouse.wheel(0, 40);
    await expect.poll(() => page().getByRole("region", { name: "Conversation" }).evaluate((e) => e.scrollTop)).not.toBe(before);
    expect(await width()).toBe(all.replace(/\s+/g, " "));
    await page().mouse.move(box.x + box.width * 0.8, box.y + 80);
    await page().keyboard.down("Control");
    await page().mouse.wheel(0, -200);
    await page().keyboard.up("Control");
    await chart().getByRole("button", { name: "Show the whole time" }).waitFor();
    const zoomed = await width();
    expect(zoomed).not.toBe(all.replace(/\s+/g, " "));
    await page().mouse.move(box.x + box.width * 0.5, box.y + 80);
    await page().mouse.down();
    await page().mouse.move(box.x + box.width * 0.7, box.y + 80, { steps: 4 });
    await page().mouse.up();
    const moved = await width();
    expect(moved).not.toBe(zoomed);
    await group.focus();
    await page().keyboard.press("0");
    expect(await width()).toBe(all.replace(/\s+/g, " "));
    await page().keyboard.press("+");
    await chart().getByRole("button", { name: "Show the whole time" }).click();
    expect(await width()).toBe(all.replace(/\s+/g, " "));
    await chart().locator("[data-stop]").first().focus();
    await page().keyboard.press("ArrowRight");
    await point().waitFor();
    await chart().getByRole("button", { name: "Enlarge the chart" }).click();
    await page().getByRole("dialog").locator("canvas").first().waitFor();
    await browser.shot("evidence-large");
  });

  test("missing values are announced, and the picture replaces them", async () => {
    const gone = { status: 410, contentType: "application/json", body: JSON.stringify({ error: { code: "condensed", message: "the bytes are gone with the steps of its turn" } }) };
    await page().route("**/v1/artifacts/**", async (route) => {
      const there = await route.fetch();
      await (there.headers()["content-type"]?.startsWith("image/") ? route.continue() : route.fulfill(gone));
    });
    await page().goto(`${server.url}/apps/home/#/${session}`);
    await page().getByText("Its values are no longer available. This is a picture of them.").waitFor();
    await expect.poll(() => page().locator("figure img").evaluate((i) => (i as HTMLImageElement).naturalWidth)).toBe(1440);
    await page().locator("figure").evaluate((e) => e.scrollIntoView({ block: "start" }));
    await browser.shot("evidence-picture");
    await page().unroute("**/v1/artifacts/**");
    await page().route("**/v1/artifacts/**", (route) => route.fulfill(gone));
    await page().reload();
    await page().getByText("This picture is no longer stored.").waitFor();
    // The values are still in the log.
    await source("Mains meter Voltage L1").click();
    await expect.poll(() => page().evaluate(() => document.activeElement?.closest("[data-wanted], [data-entity], dialog") !== null)).toBe(true);
  });

  test("values that cannot be read at the moment are read again, and later on request", async () => {
    let fails = 1;
    let asked = 0;
    const away = { status: 503, contentType: "application/json", body: JSON.stringify({ error: { code: "unavailable", message: "the store does not answer" } }) };
    await page().route("**/v1/artifacts/**", (route) => (route.request().resourceType() === "image" ? route.continue() : ++asked <= fails ? route.fulfill(away) : route.continue()));
    await page().goto(`${server.url}/apps/home/#/${session}`);
    await page().locator("figure[data-plot] canvas").first().waitFor();
    expect(asked).toBeGreaterThan(1);
    fails = Infinity;
    await page().reload();
    await page().getByText("This chart could not be loaded.").waitFor();
    await browser.shot("evidence-unread");
    fails = 0;
    await page().getByRole("button", { name: "Try again" }).first().click();
    await page().locator("figure[data-plot] canvas").first().waitFor();
  });

  test("a session that was exported and imported has its chart", async () => {
    const zip = await (await fetch(`${server.url}/v1/sessions/${session}/export`)).arrayBuffer();
    const copy = (await (await fetch(`${server.url}/v1/sessions/import`, { method: "POST", headers: { "Content-Type": "application/zip" }, body: zip })).json()) as { id: string };
    expect(copy.id).not.toBe(session);
    await open(copy.id);
    await source("Mains meter Voltage L1").click();
    await point().waitFor();
  });

  test("an old moment of an entity outside the panel is read from the house", async () => {
    const stage = await Stage.before(server.url);
    onTestFinished(() => stage.close());
    stage.realHouse = true;
    const day = new Date(Date.now() - 2 * 86_400_000).toISOString().slice(0, 10);
    const turn = "T-past";
    const usage = { input_tokens: 1, output_tokens: 1 };
    const message = `The link of \`sensor.bedroom_ceiling_lqi\` was weak at ${day} 08:00:00Z.`;
    const citations = [
      { source: "home assistant", ref: "sensor.bedroom_ceiling_lqi", quote: `weak at ${day} 08:00:00Z` },
      { source: "home assistant", ref: "sensor.of_no_house", quote: `weak at ${day} 08:00:00Z` },
    ];
    const events = [
      { type: "session.created", data: { app: "home", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 2 } },
      { turn, type: "turn.started", data: { origin: "user", message: { role: "user", parts: [{ type: "text", text: "Was it weak?" }] }, budgets: {}, app: "d", by: "local", client: "api" } },
      { turn, agent: "home", type: "agent.started", data: { name: "home" } },
      { turn, agent: "home", type: "model.started", data: { call: "m", model: "scripted/home", context: "x", reserved: usage } },
      { turn, agent: "home", type: "model.replied", data: { call: "m", model: "scripted/home", parts: [{ type: "text", text: message }], usage } },
      { turn, type: "turn.completed", data: { response: { message, citations }, usage } },
    ].map((e, i) => ({ session: "S-past", seq: i + 1, time: new Date(Date.now() - 9000 + i).toISOString(), ...e }) as Event);
    stage.put("home", events);
    await page().goto(`${stage.url}/apps/home/#/S-past`);
    await source("sensor.bedroom_ceiling_lqi").click();
    const dialog = page().getByRole("dialog");
    await dialog.locator("[data-point]").waitFor();
    expect(await dialog.getByRole("status").innerText()).toMatch(/08:00:00 · .*LQI · \d+/i);
    await browser.shot("evidence-past");
    await page().keyboard.press("Escape");
    await page().locator(".prose .lead", { hasText: day }).click();
    await dialog.locator("[data-point]").waitFor();
    await page().keyboard.press("Escape");
    await source("sensor.of_no_house").click();
    await dialog.getByRole("alert").getByText(/cannot be read now.*no entity/).waitFor();
  });
});
