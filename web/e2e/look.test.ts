// How the page looks, in both themes and on a phone: axe checks contrast and names, and the end of an answer is in
// view.

import { rmSync } from "node:fs";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { answered } from "./logs.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { Stage } from "./stage.ts";

let server: Server;
let data: string;
let browser: Browser;

beforeAll(async () => {
  data = temporary();
  server = await startServer({ data, pace: "5ms" });
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

async function look(name: string): Promise<void> {
  await browser.shot(`look-${name}`);
  expect(await violations(page()), name).toEqual([]);
}

describe.runIf(!process.env["PARLEY_URL"]).each(["dark", "light"])("in the %s", (theme) => {
  test.each([
    ["desktop", { width: 1440, height: 900 }],
    ["phone", phone],
  ])("everything can be read: %s", async (name, size) => {
    browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
    await page().addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
    const p = parts(page());
    const at = `${theme}-${name}`;
    await page().goto(`${server.url}/`);
    await page().getByRole("link").first().waitFor();
    await look(`${at}-apps`);

    await page().goto(`${server.url}/apps/chaos/`);
    await page().getByRole("main").getByText("What's the final spec?").waitFor();
    await p.input.fill("x");
    await look(`${at}-chaos-empty`);
    await p.ask("I'm starting on the login system. What's the final spec?");
    await p.done();
    await page().getByRole("button", { name: /Thought process/ }).last().click();
    await look(`${at}-chaos-answer`);

    await page().goto(`${server.url}/apps/home/`);
    await p.ask("Turn on the bedroom light.");
    await page().locator("main [data-interaction]").waitFor();
    await p.input.fill("none of them");
    await look(`${at}-home-question`);
    await page().getByRole("button", { name: "Skip and say this" }).click();
    await p.done();
    await p.ask("Why did the bedroom lights flicker last night?");
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    await page().getByRole("button", { name: /^Steps/ }).last().click();
    await look(`${at}-home-answer`);
    await page().getByRole("button", { name: "Timeline" }).last().click();
    await page().getByRole("dialog").waitFor();
    await look(`${at}-home-timeline`);
  });

  test.each([
    ["desktop", { width: 1440, height: 900 }],
    ["phone", phone],
  ])("what waits, and the end of a long list, can be read: %s", async (name, size) => {
    browser = await startBrowser(size, { touch: name === "phone", reducedMotion: true });
    await page().addInitScript((theme) => localStorage.setItem("parley.theme", theme), theme);
    const at = `${theme}-${name}`;
    const stage = await Stage.before(server.url);
    stage.realHouse = true;
    try {
      for (let i = 0; i < 40; i++) stage.put("home", answered(`list-${i}`, [["Which sensors are unavailable?", "None."]], "home"), `Which sensors are unavailable in the garden and behind the greenhouse, ${i}?`);
      const [asked] = await begin({ app: "home" }, "Turn on the bedroom ceiling light");
      await page().goto(`${stage.url}/apps/home/#/${asked}`);
      const card = page().locator("main [data-interaction]");
      await card.getByRole("button", { name: "Allow once" }).waitFor();
      expect(await card.locator("[data-detail]").innerText()).toBe("light.turn_on on light.bedroom_ceiling");
      await look(`${at}-permission`);
      await card.locator("summary").click();
      await card.getByText("target.entity_id").waitFor();
      await look(`${at}-permission-details`);
      await page().getByRole("button", { name: /^Permissions:/ }).click();
      await page().getByRole("menuitemradio", { name: /^Asks first/ }).focus();
      await look(`${at}-modes`);
      await page().keyboard.press("Escape");

      const [held, first] = await begin({ app: "home", busy: "enqueue", max_open_turns: 2 }, "Turn on the bedroom light.");
      await post(`sessions/${held}/turns`, { message: "Is anyone home?", busy: "enqueue" });
      await post(`turns/${first}/cancel`, {});
      await page().goto(`${stage.url}/apps/home/#/${held}`);
      await page().getByText(/messages above are on hold/).waitFor();
      await look(`${at}-held`);

      if (name === "phone") await page().getByRole("button", { name: "Conversations" }).click();
      await page().locator("[data-session]").nth(39).scrollIntoViewIfNeeded();
      await look(`${at}-list-end`);
    } finally {
      await stage.close();
    }
  });
});

const post = async (path: string, body: unknown): Promise<{ id: string }> =>
  (await fetch(`${server.url}/v1/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json() as Promise<{ id: string }>;

/** Returns a session whose first turn waits for a person, and that turn. */
async function begin(session: object, message: string): Promise<[session: string, turn: string]> {
  const { id } = await post("sessions", session);
  const turn = await post(`sessions/${id}/turns`, { message });
  await post(`turns/${turn.id}/await`, { timeout_ms: 30_000 });
  return [id, turn.id];
}

/** The controls whose target is less than 44 px high or wide. Points of a chart and figures in the text are where their values are. */
const tooSmall = () =>
  page().evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("main :is(button, a[href], summary), dialog :is(button, a[href], input:not([type=checkbox], [type=radio]))")]
      .filter((e) => e.checkVisibility() && !e.closest(".lead, [role=img], .u-over, .uplot, [inert]") && !/^.+: [\d.,]+ /.test(e.getAttribute("aria-label") ?? ""))
      .map((e) => {
        const box = e.getBoundingClientRect();
        const reach = parseFloat(getComputedStyle(e, "::after").height) || 0;
        return [e.getAttribute("aria-label") ?? e.innerText, Math.round(box.width), Math.round(Math.max(box.height, reach))] as const;
      })
      .filter(([, wide, high]) => wide < 32 || high < 44),
  );

test("on a phone every control is large enough for a finger", async () => {
  browser = await startBrowser(phone, { touch: true, reducedMotion: true });
  const p = parts(page());
  await page().goto(`${server.url}/apps/home/`);
  await p.ask("Why did the bedroom lights flicker last night?");
  await p.done();
  expect(await p.last.innerText(), "an answer that has a plot").toContain("Mains meter Voltage L1");
  await page().getByRole("button", { name: /^Steps/ }).click();
  await page().getByRole("button", { name: "As a table" }).waitFor();
  expect(await tooSmall()).toEqual([]);
  for (const [message, name] of [["Turn on the bedroom light.", "Answer"], ["Turn on the bedroom ceiling light", "Allow once"]] as const) {
    const [asked] = await begin({ app: "home" }, message);
    await page().goto(`${server.url}/apps/home/#/${asked}`);
    await page().getByRole("button", { name, exact: true }).waitFor();
    expect(await tooSmall(), message).toEqual([]);
  }
  await page().getByRole("button", { name: /^Inbox: \d/ }).click();
  await page().getByRole("dialog").getByRole("link").first().waitFor();
  expect(await tooSmall(), "the inbox").toEqual([]);
  await page().getByRole("button", { name: "Close" }).click();
  await page().getByRole("button", { name: "Pins" }).click();
  await page().getByRole("textbox", { name: "Name of pin 1" }).waitFor();
  expect(await tooSmall(), "the pins").toEqual([]);
});

test("on a phone nothing leaves the window: tables scroll by themselves, the page does not", async () => {
  browser = await startBrowser(phone, { touch: true, reducedMotion: true });
  const p = parts(page());
  const stage = await Stage.before(server.url);
  const id = "sensor.bedroom_bedside_right_link_quality_of_the_lamp_next_to_the_wardrobe";
  const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  try {
    const session = stage.put("home", answered("wide", [
      ...Array.from({ length: 6 }, (_, i) => [`Question ${i}?`, "Word. ".repeat(80)] as [string, string]),
      ["لماذا؟", `نعم.\n\n- واحد\n\n| Lamp | Since |\n|---|---|\n| ${id} | 22:34 |\n\n| Day | ${days.join(" | ")} |\n|---${"|---".repeat(7)}|\n| Energy used | ${days.map(() => "12.25 kWh").join(" | ")} |`],
    ], "home"));
    await page().goto(`${stage.url}/apps/home/#/${session}`);
    await p.done();
    const notice = page().getByRole("note").filter({ hasText: "a script answers" });
    expect(await notice.locator("p").evaluate((e) => e.clientHeight), "one line of notice").toBeLessThan(30);
    const root = () => page().evaluate(() => ["html", "body", "#root"].map((s) => document.querySelector(s) as HTMLElement).map((e) => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth, e.scrollTop]));
    const tables = page().getByRole("region", { name: "Table" });
    await tables.last().waitFor();
    expect(await root(), "only the conversation scrolls").toEqual(Array.from({ length: 3 }, () => [0, 0, 0]));
    const beyond = (n: number) => tables.nth(n).evaluate((e) => e.scrollWidth - e.clientWidth);
    expect(await beyond(0), "one long id fits").toBe(0);
    expect(await beyond(1)).toBeGreaterThan(100);
    expect(await tables.nth(1).evaluate((e) => ((e.scrollLeft = 100), e.scrollLeft)), "a wide table can be scrolled").toBe(100);
    const paragraph = p.last.locator(".prose > p").first();
    expect(await paragraph.evaluate((e) => getComputedStyle(e).direction)).toBe("rtl");
    expect(await tables.first().evaluate((e) => getComputedStyle(e).direction)).toBe("ltr");
  } finally {
    await stage.close();
  }
});

test("the end of an answer stays in view while its plot loads late, and a reader who goes up stays there", async () => {
  browser = await startBrowser({ width: 1440, height: 700 });
  const p = parts(page());
  let loaded = (): void => undefined;
  const held = new Promise<void>((done) => (loaded = done));
  await page().route("**/v1/artifacts/**", async (route) => {
    await held;
    await route.continue();
  });
  await page().goto(`${server.url}/apps/home/`);
  await p.ask("Why did the bedroom lights flicker last night?");
  await p.done();
  expect(await p.last.innerText(), "an answer that has a plot").toContain("Mains meter Voltage L1");
  const box = page().getByRole("region", { name: "Conversation" });
  const fromEnd = () => box.evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
  await expect.poll(fromEnd).toBeLessThan(2);
  const room = () => page().locator("figure[data-plot]").evaluate((e) => Math.round(e.getBoundingClientRect().height));
  const reserved = await room();
  loaded();
  await page().locator("figure[data-plot] canvas").first().waitFor();
  expect(Math.abs((await room()) - reserved), "the room for a plot is there before it").toBeLessThan(20);
  await expect.poll(fromEnd).toBeLessThan(2);
  expect(await page().getByRole("button", { name: "Jump to latest" }).count()).toBe(0);

  // The text grows between a scroll to the end and the event that reports that scroll.
  for (let i = 0; i < 20; i++) {
    await box.evaluate(async (e) => {
      e.scrollTop = e.scrollHeight;
      const article = document.querySelector("article:last-of-type") as HTMLElement;
      article.style.paddingBottom = `${(parseInt(article.style.paddingBottom) || 0) + 300}px`;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    });
    await expect.poll(fromEnd).toBeLessThan(2);
  }
  const steps = page().getByRole("button", { name: /^Steps/ }).last();
  await box.evaluate((e) => {
    (document.querySelector("article:last-of-type") as HTMLElement).style.paddingBottom = "";
    e.scrollTop = e.scrollHeight;
  });
  await steps.scrollIntoViewIfNeeded();
  const top = () => steps.evaluate((e) => Math.round(e.getBoundingClientRect().top));
  const before = await top();
  await steps.click();
  await expect.poll(() => steps.getAttribute("aria-expanded")).toBe("true");
  expect(Math.abs((await top()) - before), "what is unfolded stays where it was").toBeLessThan(3);
  await page().getByRole("button", { name: "Jump to latest" }).click();
  await expect.poll(fromEnd).toBeLessThan(2);
  await box.hover();
  await page().mouse.wheel(0, -400);
  await page().getByRole("button", { name: "Jump to latest" }).waitFor();
});
