// Every card and state of the page: axe finds nothing in it, and nothing leaves the window, on a phone, on a tablet and on
// a desktop, in both themes. Many states are shown at once, because axe is slow. The pictures are for people.

import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { recorded } from "./logs.ts";
import { lookAt } from "./looks.ts";
import { Stage } from "./stage.ts";
import { open, past } from "./states.ts";

let server: Server;
let stage: Stage;
let browser: Browser;
const data = temporary();

beforeAll(async () => {
  process.env["GARDEN_URL"] = "http://127.0.0.1:9";
  process.env["GARDEN_SECRET"] = `whsec_${randomBytes(32).toString("base64")}`;
  server = await startServer({ data, pace: "5ms", own: join(import.meta.dirname, "own") });
  stage = await Stage.before(server.url);
  for (const log of open) stage.put("home", log, nameOf(log));
});
afterAll(async () => {
  await stage?.close();
  await server?.stop();
  rmSync(data, { recursive: true, force: true });
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const nameOf = (log: (typeof open)[number]) => log.flatMap((e) => (e.type === "turn.started" ? (e.data?.message.parts ?? []).map((p) => p.text) : []))[0] ?? "";

const look = (name: string, height: number, at?: readonly number[]) => lookAt(browser, `state-${name}`, height, at);

async function visit(path: string, height = 900): Promise<void> {
  browser = await startBrowser({ width: 1440, height }, { reducedMotion: true });
  await page().goto(`${stage.url}${path}`);
}

describe.runIf(!process.env["PARLEY_URL"])("can be read:", () => {
  test("every card, and who is waited for in the lists", async () => {
    await visit("/apps/home/");
    const people = open.length - 1;
    await page().getByRole("button", { name: `Inbox: ${people} questions wait for you` }).waitFor();
    await expect.poll(() => page().locator("[data-session]").filter({ hasText: "waits for you" }).count()).toBe(people);
    expect(await page().locator("[data-session]").filter({ hasText: "waits for a client" }).innerText()).toContain("What is in my calendar this week?");
    await page().getByRole("button", { name: /^Inbox/ }).click();
    const inbox = page().getByRole("dialog", { name: "Waits for you" });
    await inbox.getByRole("heading", { name: "Waits for a client", exact: true }).waitFor();
    expect(await inbox.locator("[data-interaction]").count()).toBe(open.length);
    await look("inbox", 3800);
  });

  test("a card in its conversation; a window that becomes narrow keeps the conversation", async () => {
    await visit("/apps/home/#/S-client-offered");
    await page().getByText("You need not do anything.").waitFor();
    await page().getByRole("complementary", { name: "House" }).waitFor();
    await page().setViewportSize({ width: 390, height: 844 });
    await page().getByRole("button", { name: "Go on without it…" }).click(); // nothing covers it
    await page().setViewportSize({ width: 1440, height: 900 });
    await page().getByRole("complementary", { name: "House" }).waitFor();
    await look("client-offered", 844, [390]);
  });

  test("what became of turns, and their timelines", async () => {
    stage.put("home", past, "What became of turns");
    await visit("/apps/home/#/S-past", 5200); // so high that all turns are read
    await page().getByText("Nobody could look into your calendar.").waitFor();
    const direct = page().locator("article").filter({ hasText: "Called directly, without a model" });
    expect(await direct.innerText()).toContain("Turn on: ");
    await direct.locator(".code").waitFor();
    for (const steps of await page().getByRole("button", { name: /^Steps/ }).all()) if ((await steps.getAttribute("aria-expanded")) === "false") await steps.click();
    await look("past", 5200);
    for (const [name, text] of [["resumed", "The voltage dropped"], ["hooks", "I may not turn it off"], ["late", "Nobody could look"]] as const) {
      await page().setViewportSize({ width: 1440, height: 900 });
      await page().locator("article").filter({ hasText: text }).getByRole("button", { name: "Timeline" }).click();
      await page().getByRole("dialog").waitFor();
      await look(`timeline-${name}`, 1000, [390]);
      await page().keyboard.press("Escape");
    }
  });

  test("agents that help", async () => {
    const log = recorded("sub-agents");
    const id = stage.put("home", log, "Agents");
    await visit(`/apps/home/#/${id}`);
    await page().getByRole("region", { name: "Agents at work for this answer" }).first().waitFor();
    await look("team", 1600, [390]);
  });

  test("the empty page with mistakes of its app, its menus, and what is said about it", async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    await page().route("**/v1/apps/garden", async (route) => {
      const app = (await (await route.fetch()).json()) as { notices: string[] };
      app.notices.unshift("This app has mistakes, so its last correct version is served: app.yaml:12: agents.gardener.prompt: gardner.md is missing; app.yaml:30: policy.rules[0].verdict: “alow” is none");
      await route.fulfill({ json: app });
    });
    await page().route("**/v1/models", (route) => route.fulfill({ json: { models: [{ name: "scripted/garden", scripted: true }, { name: "anthropic/claude-opus-with-a-name-that-is-long" }, { name: "openrouter/meta/llama" }] } }));
    await page().goto(`${server.url}/apps/garden/`);
    await page().getByRole("button", { name: "Kill the server" }).waitFor();
    await page().getByText("agents.gardener.prompt").waitFor();
    await look("empty", 900);
    await page().getByRole("textbox", { name: "Message" }).fill("/");
    await page().getByRole("option").first().waitFor();
    await look("slash", 900, [390]);
    await page().getByRole("textbox", { name: "Message" }).fill("");
    await page().getByRole("button", { name: /^Model:/ }).click();
    await page().getByRole("menuitemradio").first().waitFor();
    await look("models", 900, [390]);
    await page().keyboard.press("Escape");
    await page().setViewportSize({ width: 1440, height: 900 });
    await page().getByRole("button", { name: /^App:/ }).click();
    await page().getByRole("menuitem", { name: "All apps" }).waitFor();
    await look("apps", 900, [1440]);
    await page().getByRole("menuitem", { name: "About this app" }).click();
    const about = page().getByRole("dialog");
    await about.getByText("It follows the rules of a script.").waitFor();
    await look("about", 1000, [390]);
  });

  test("a server that is away when the page opens, and comes back", async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    // The server is back once the button is pressed, and not before: the page also tries by itself, and then there would be
    // no button.
    await page().addInitScript(() => document.addEventListener("click", () => (document.documentElement.dataset["pressed"] = "yes"), true));
    await page().route("**/v1/**", async (route) => {
      const back = await page().evaluate(() => document.documentElement.dataset["pressed"] === "yes").catch(() => false);
      await (back ? route.continue() : route.abort());
    });
    await page().goto(`${server.url}/apps/home/`);
    await page().getByRole("alert").getByText("The server cannot be reached.").waitFor();
    await look("away", 844, [1440, 390]);
    await page().getByRole("alert").getByRole("button", { name: "Try again" }).click();
    await page().getByRole("main").getByText("Turn off the bedroom light.").waitFor();
    expect(await page().getByRole("alert").count()).toBe(0);
    await page().unrouteAll({ behavior: "wait" });
  });

  test("the pages beside those of the apps, and an address of nobody's conversation", async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    await page().goto(`${server.url}/docs`);
    await page().locator("summary").filter({ hasText: "Make a session" }).first().click();
    await look("docs", 900, [1440, 390]);
    await page().goto(`${server.url}/nothing/here`);
    await page().getByRole("link", { name: "All apps" }).waitFor();
    await look("missing", 844, [390]);
    await page().goto(`${server.url}/login.html?state=x&code=y`);
    await page().getByRole("alert").waitFor();
    await look("login-over", 844, [390]);
    await page().goto(`${server.url}/apps/home/#/S-nobody`);
    await page().getByText("This conversation is not here").waitFor();
    await look("lost", 844, [390]);
  });

  test("a conversation that has ended, in which nothing is offered", async () => {
    const post = async (path: string, body: unknown) => (await fetch(`${server.url}/v1/${path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json() as Promise<{ id: string }>;
    const { id } = await post("sessions", { app: "home" });
    const turn = await post(`sessions/${id}/turns`, { message: "Is anyone home?" });
    await post(`turns/${turn.id}/await`, { timeout_ms: 30_000 });
    await post(`sessions/${id}/end`, {});
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    await page().goto(`${server.url}/apps/home/#/${id}`);
    await page().getByText("This conversation has ended.").waitFor();
    await page().locator("article").getByRole("button", { name: "Copy answer" }).waitFor();
    expect(await page().locator("article").getByRole("button", { name: /^Try again|^Go back/ }).count()).toBe(0);
    await look("ended", 844, [390]);
  });

  test("the login", async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    await page().route("**/v1/**", (route) => route.fulfill({ status: 401, headers: { "WWW-Authenticate": 'Bearer realm="parley"' }, json: { error: { code: "unauthenticated", message: "a key is needed", hint: "send it as a bearer token" } } }));
    await page().goto(`${server.url}/apps/home/`);
    await page().getByRole("heading", { name: "This server asks for a key" }).waitFor();
    await look("login", 844, [1440, 390]);
  });
});
