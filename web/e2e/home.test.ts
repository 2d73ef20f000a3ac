import { join } from "node:path";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";

import { parts, phone, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { asking, expensive, inAnHour, recorded } from "./logs.ts";
import { Stage } from "./stage.ts";

const question = "Why did the bedroom lights flicker last night?";
const roomy = { width: 1440, height: 900 };

let server: Server;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  server = await startServer({ pace: "5ms", apps: join(import.meta.dirname, "apps") });
});
afterAll(() => server.stop());

beforeEach(async () => {
  stage = await Stage.before(server.url);
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  await stage.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const home = () => `${stage.url}/apps/home/`;
const card = () => page().locator("main [data-interaction]").last();
const button = (name: string | RegExp) => page().getByRole("button", { name });
const entity = (id: string) => page().locator(`[data-entity="${id}"]`);

async function open(hash = ""): Promise<void> {
  await page().goto(home() + hash);
}

describe("on a desktop", () => {
  beforeEach(async () => {
    browser = await startBrowser(roomy);
  });

  test("the story: a permission is asked for, allowed, and the answer names its sources", async () => {
    const p = parts(page());
    await open();
    await page().getByRole("main").getByText(question).waitFor();
    await entity("sensor.mains_voltage").locator("path").first().waitFor();
    await browser.shot("home-empty");
    await p.ask(question);
    await button("Allow once").waitFor();
    expect(await card().innerText()).toMatch(/Permission[\s\S]*Allow read_slack_mock\?[\s\S]*who was at home[\s\S]*query\s*voltage flicker/);
    expect(await card().innerText()).toMatch(/2[34] h left/);
    await page().locator("[data-badge]").waitFor();
    expect(await page().locator("[data-session]").first().innerText()).toMatch(/waits for you/);
    await expect.poll(() => page().getByRole("log").innerText()).toMatch(/Your answer is needed: Allow read_slack_mock/);
    await browser.shot("home-permission");
    await button("Allow once").click();
    await expect.poll(() => page().getByRole("log").innerText()).not.toMatch(/Your answer is needed/);
    await p.done();
    expect(await card().innerText()).toMatch(/Allowed once · Allow read_slack_mock\? · just now/);
    expect(await p.last.locator(".prose").innerText()).toMatch(/207 V/);
    await p.last.getByRole("region", { name: "Steps" }).getByRole("button", { name: /Steps/ }).click();
    expect(await page().locator("[data-step]").evaluateAll((all) => all.map((e) => e.getAttribute("data-step")))).toEqual(
      expect.arrayContaining(["plan", "tool_call", "tool_result", "ask"]),
    );
    await p.last.getByRole("region", { name: "Steps" }).getByRole("button", { name: /Steps/ }).click();
    await expect.poll(() => page().locator("[data-badge]").count()).toBe(0);
    await browser.shot("home-answer");

    await page().getByRole("list", { name: "Sources" }).getByRole("button", { name: "Mains voltage" }).click();
    await expect.poll(() => page().evaluate(() => document.activeElement?.closest("[data-entity]")?.getAttribute("data-entity"))).toBe("sensor.mains_voltage");
    await entity("sensor.mains_voltage").getByText("sensor.mains_voltage", { exact: true }).waitFor();
    await browser.shot("home-entity");

    await button("Timeline").click();
    const bars = page().locator("[data-bar]");
    await bars.first().waitFor();
    expect(await bars.evaluateAll((all) => all.map((e) => e.getAttribute("data-bar")))).toEqual(expect.arrayContaining(["model", "tool", "wait"]));
    expect(await page().getByRole("dialog").innerText()).toMatch(/Waiting for people[\s\S]*Tokens\s*[\d,]+[\s\S]*Cost/);
    await browser.shot("home-timeline");
    await page().keyboard.press("Escape");

    await button("Give me a plan to mitigate it").click();
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    expect(await p.last.locator(".prose").innerText()).toMatch(/surge protector/);
  });

  test("a call is denied with words, and the agent goes on without it", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Deny…").click();
    await page().keyboard.type("Leave the log alone.");
    await page().keyboard.press("Enter");
    await p.done();
    expect(await card().innerText()).toMatch(/Denied[\s\S]*“Leave the log alone\.”/);
    expect(await p.last.locator(".prose").innerText()).toMatch(/I left the log of the house alone/);
  });

  test("an edited input is checked, here and by the server, and what ran is said", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Edit input…").click();
    const field = page().getByRole("textbox", { name: "Input of the call, as JSON" });
    await field.fill("{");
    await button("Allow with this input").click();
    expect(await card().getByRole("alert").innerText()).toMatch(/not JSON/);
    await field.fill('{"query": 7}');
    await button("Allow with this input").click();
    await expect.poll(() => card().getByRole("alert").innerText()).toMatch(/query/);
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    await browser.shot("home-edit");
    await field.fill('{"query": "voltage dip"}');
    await button("Allow with this input").click();
    await p.done();
    expect(await card().innerText()).toMatch(/Allowed once, with edited input[\s\S]*query\s*voltage dip/);
  });

  test("allowed for the session, it is not asked for again", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Allow for this conversation").click();
    await p.done();
    await p.ask(question);
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    expect(await page().locator("main [data-interaction]").count()).toBe(1);
  });

  test("rules of the session are listed, and can be revoked", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Allow for this conversation").click();
    await p.done();
    await button("1 allowed").click();
    const dialog = page().getByRole("dialog", { name: "Allowed for this conversation" });
    await dialog.getByText("read_slack_mock", { exact: true }).waitFor();
    await browser.shot("home-rules");
    await button("Ask again for read_slack_mock").click();
    await dialog.getByText(/^Nothing\. You are asked for each call/).waitFor();
    await page().keyboard.press("Escape");
    await button("1 allowed").waitFor({ state: "detached" });
    await p.ask(question);
    await expect.poll(() => page().locator("main [data-interaction]").count()).toBe(2);
    await button("Allow once").click();
    await p.done();
  });

  test("a second person is told who answered first", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Allow once").waitFor();
    const { interactions } = (await (await fetch(`${server.url}/v1/interactions`)).json()) as { interactions: { id: string; session: string }[] };
    const id = interactions.at(-1)?.id ?? "";
    // The other client answers first, while this page gets no events.
    await page().route(`**/v1/interactions/${id}/answer`, async (route) => {
      const body = JSON.stringify({ choice: "deny", text: "I was here first." });
      await fetch(`${server.url}/v1/interactions/${id}/answer`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      await route.continue();
    });
    await button("Allow once").click();
    await expect.poll(() => card().innerText()).toMatch(/Denied[\s\S]*I was here first\.[\s\S]*Your answer, “Allow once”, came too late: the first one counts\./);
    await browser.shot("home-late");
  });

  test("a message to a turn that waits is a no, with these words", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Allow once").waitFor();
    await p.ask("Never mind the log.");
    await p.done();
    expect(await card().innerText()).toMatch(/Denied[\s\S]*“Never mind the log\.”/);
    expect(await p.answers.count()).toBe(1);
  });

  test("the inbox lists waiting interactions of other sessions, and links to them", async () => {
    const p = parts(page());
    await open();
    await p.ask(question);
    await button("Allow once").waitFor();
    await p.newChat.first().click();
    await page().getByText("What is going on at home?").waitFor();
    await button(/^Inbox: 1 question waits/).click();
    const inbox = page().getByRole("dialog", { name: "Waits for you" });
    await inbox.getByText("Allow read_slack_mock?").waitFor();
    await browser.shot("home-inbox");
    await inbox.getByRole("link").first().click();
    await card().waitFor();
    await expect.poll(() => page().evaluate(() => document.activeElement?.getAttribute("data-interaction"))).toBe("permission");
    await button(/^Inbox/).click();
    await inbox.getByRole("button", { name: "Allow once" }).click();
    await inbox.getByText("Nothing waits for an answer.").waitFor();
    await page().keyboard.press("Escape");
    await p.done();
  });

  test("in the inbox, too, a second person is told", async () => {
    stage.put("home", asking("l", "Send it", { kind: "confirmation", title: "Send the report?", choices: ["allow", "deny"] }), "Report");
    stage.onAnswer = (i) => {
      stage.append(i.session, [{ turn: i.turn, type: "interaction.answered", data: { id: i.id, answer: { choice: "deny" }, by: "ana", client: "mcp" } }]);
      return { status: 409, body: { error: { code: "conflict", message: "interaction I-l was answered by ana with deny", hint: "the first answer counts" } } };
    };
    await open();
    await button(/^Inbox: 1 question waits/).click();
    await button("Yes, do it").click();
    await page().getByText(/“Send the report\?” was closed before your answer came\. Interaction I-l was answered by ana with deny\./).waitFor();
    await page().getByText("Nothing waits for an answer.").waitFor();
    await page().keyboard.press("Escape");
    await open(`#/S-l`);
    await page().reload();
    await expect.poll(() => card().innerText()).toMatch(/Not confirmed · Send the report\? · by ana from another program/);
  });

  test("the mode is changed after a warning, and says so until it is changed back", async () => {
    const p = parts(page());
    await open();
    await button("Permissions: asks first").click();
    await browser.shot("home-modes");
    await page().getByRole("menuitemradio", { name: /Acts at once/ }).click();
    await page().getByRole("dialog", { name: "Act without asking?" }).waitFor();
    await browser.shot("home-bypass");
    await button("Act at once").click();
    await button("Permissions: acts at once").waitFor();
    await p.ask(question);
    await p.done();
    expect(await page().locator("main [data-interaction]").count()).toBe(0);
    await button("Permissions: acts at once").click();
    await page().getByRole("menuitemradio", { name: /Asks first/ }).click();
    await button("Permissions: asks first").waitFor();
    await page().reload();
    await p.done();
    await button("Permissions: asks first").waitFor();
  });

  test("pins are kept by the session", async () => {
    const p = parts(page());
    await open();
    await button("Pins").click();
    await page().getByRole("textbox", { name: "Name of pin 1" }).fill("Wiring");
    await page().getByRole("textbox", { name: "Text of pin 1" }).fill("Circuit B was rewired in May.");
    await browser.shot("home-pins");
    await button("Save").click();
    await button("1 pin").waitFor();
    await p.ask(question);
    await button("Allow once").click();
    await p.done();
    await page().reload();
    await button("1 pin").click();
    expect(await page().getByRole("textbox", { name: "Text of pin 1" }).inputValue()).toBe("Circuit B was rewired in May.");
    await button("Remove pin 1").click();
    await button("Save").click();
    await button("Pins").waitFor();
  });

  test("states change as they come, and a house that is away is said to be", async () => {
    await open();
    const lamp = entity("light.bedroom_lamp");
    await lamp.waitFor();
    expect(await lamp.innerText()).toMatch(/Off/);
    await expect.poll(() => stage.house.asked.some((p) => p.endsWith("/stream"))).toBe(true);
    await expect.poll(async () => {
      stage.house.say({ entity_id: "light.bedroom_lamp", state: "on", last_changed: new Date().toISOString(), available: true });
      return lamp.innerText();
    }).toMatch(/On/);
    stage.house.say({ connected: false, age_ms: 300_000 });
    await page().getByText(/Nothing is heard from the house\. The states are from 5 min/).waitFor();
    stage.house.say({ connected: true, age_ms: 0 });
    await page().getByText(/Nothing is heard from the house/).waitFor({ state: "detached" });
    await page().getByRole("searchbox", { name: "Search the house" }).fill("kitchen motion");
    await expect.poll(() => page().locator("[data-entity]").count()).toBe(1);
  });

  test.each([
    [404, /This server does not show the entities of a house\. Conversations work without it\./],
    [503, /The entities of the house cannot be read now\. Home Assistant does not answer\. Check that it runs\./],
  ])("without entities (%i) the rest of the page works", async (status, words) => {
    stage.house.refuse = status;
    const p = parts(page());
    await open();
    await page().getByText(words).waitFor();
    await browser.shot(`home-away-${status}`);
    await p.ask("Give me a plan");
    await p.done();
    stage.house.refuse = 0;
    // After a 503 the page also asks again by itself, and the button may be gone before it is clicked.
    const again = page().getByRole("complementary", { name: "House" }).getByRole("button", { name: "Try again" });
    await Promise.any([again.click(), entity("light.kitchen").waitFor()]);
    await entity("light.kitchen").waitFor();
  });

  test("a write of unknown outcome: what is known is said, and a human says what happened", async () => {
    const id = stage.put("home", recorded("waiting-unknown"), "Add a note");
    await open(`#/${id}`);
    const choices = ["It happened", "It did not", "Do it again", "Leave it"];
    await button("It happened").waitFor();
    expect(await card().getByRole("button").allInnerTexts()).toEqual(choices);
    expect(await card().innerText()).toMatch(/Outcome unknown[\s\S]*What became of note_add\?[\s\S]*was begun at [\s\S]*nobody could say whether it took effect/);
    await browser.shot("home-unknown");
    await button("It did not").click();
    await expect.poll(() => card().innerText()).toMatch(/It did not happen · What became of note_add\?/);
    expect(stage.answers.map((a) => a.answer)).toEqual([{ choice: "did_not" }]);
  });

  test("questions are answered by labels and in one's own words", async () => {
    const id = stage.put(
      "home",
      asking("q", "Set up the evening", {
        kind: "question",
        title: "Two things before I set this up",
        questions: [
          { question: "When does the evening begin?", header: "Time", options: [{ label: "At sunset", description: "Changes with the seasons" }, { label: "At 20:00" }] },
          { question: "Which rooms take part?", header: "Rooms", multi_select: true, options: [{ label: "Bedroom" }, { label: "Kitchen" }, { label: "Utility room" }] },
        ],
        choices: ["answered", "deny"],
        expires_at: inAnHour(),
      }),
      "Set up the evening",
    );
    await open(`#/${id}`);
    const answer = card().getByRole("button", { name: "Answer" });
    await answer.waitFor();
    expect(await answer.isDisabled()).toBe(true);
    // With only the keyboard.
    await page().getByRole("radio", { name: /At sunset/ }).focus();
    await page().keyboard.press("Space");
    await page().getByRole("checkbox", { name: "Kitchen" }).focus();
    await page().keyboard.press("Space");
    await page().getByRole("checkbox", { name: "Bedroom" }).press("Space");
    await page().getByRole("textbox", { name: "Your own words for: Which rooms take part?" }).fill("the garden");
    await browser.shot("home-question");
    await answer.press("Enter");
    await expect.poll(() => page().evaluate(() => document.activeElement?.getAttribute("data-interaction"))).toBe("question");
    await expect.poll(() => card().innerText()).toMatch(/Answered[\s\S]*At sunset[\s\S]*Bedroom, Kitchen, the garden/);
    expect(stage.answers[0]?.answer).toEqual({
      choice: "answered",
      answers: { "When does the evening begin?": "At sunset", "Which rooms take part?": "Bedroom, Kitchen, the garden" },
    });
  });

  test("a confirmation has a deadline; after it, nothing is taken", async () => {
    const id = stage.put(
      "home",
      asking("c", "Unlock the front door", {
        kind: "confirmation",
        title: "Unlock the front door now?",
        text: "this opens the house",
        tool: "ha_call_service",
        input: { service: "lock.unlock", target: { entity_id: ["lock.front_door"] }, data: {} },
        choices: ["allow", "deny"],
        expires_at: new Date(Date.now() + 95_000).toISOString(),
      }),
      "Unlock the front door",
    );
    stage.onAnswer = (i) => {
      stage.append(i.session, [{ turn: i.turn, type: "interaction.expired", data: { id: i.id, reason: "nobody answered in time" } }]);
      return { status: 409, body: { error: { code: "conflict", message: `interaction ${i.id} expired`, hint: "the turn went on without an answer" } } };
    };
    await open(`#/${id}`);
    await button("Yes, do it").waitFor();
    expect(await card().innerText()).toMatch(/[01]:[0-5]\d left/);
    await browser.shot("home-confirmation");
    await button("Yes, do it").click();
    await expect.poll(() => card().innerText()).toMatch(/Closed without an answer[\s\S]*Nobody answered in time\.[\s\S]*came after the time was over/);
  });

  test("pictures among the artifacts are shown, other files can be had", async () => {
    const events = asking("a", "Plot the voltage", { kind: "confirmation", title: "Keep the plot?", choices: ["allow", "deny"] });
    const id = stage.put("home", events, "Plot the voltage");
    const picture = '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="400"><path d="M0 200C200 0 400 400 800 120" fill="none" stroke="#c2570a" stroke-width="4"/></svg>';
    await page().route("**/v1/artifacts/A1", (r) => r.fulfill({ contentType: "image/svg+xml", headers: { "Content-Disposition": "attachment" }, body: picture }));
    stage.append(id, [
      { turn: "T-a", type: "artifact.stored", data: { id: "A1", name: "mains-voltage.svg", media_type: "image/svg+xml", size: 4200, sha256: "x" } },
      { turn: "T-a", type: "artifact.stored", data: { id: "A2", name: "history.json", media_type: "application/json", size: 48_200, sha256: "y" } },
    ]);
    await open(`#/${id}`);
    const image = page().getByRole("img", { name: "Plot: mains-voltage.svg" });
    await expect.poll(() => image.evaluate((i) => (i as HTMLImageElement).naturalWidth)).toBe(800);
    const link = page().getByRole("link", { name: /history\.json/ });
    expect(await link.getAttribute("href")).toBe(`${stage.url}/v1/artifacts/A2`);
    await browser.shot("home-artifacts");
    await page().getByRole("button", { name: "Enlarge mains-voltage.svg" }).click();
    await page().getByRole("dialog", { name: "mains-voltage.svg" }).getByRole("img").waitFor();
  });

  test("what models did and cost is said, and an error that passes says when", async () => {
    const id = stage.put("home", expensive(), "Garden light");
    await open(`#/${id}`);
    const answers = page().locator("article");
    await answers.first().getByText("The garden light is on.").waitFor();
    await answers.first().getByRole("button", { name: /^Steps/ }).click();
    const steps = await answers.first().locator("[data-step]").allInnerTexts();
    const said = steps.map((s) => s.replace(/\s+/g, " "));
    expect(said).toEqual([
      expect.stringMatching(/^AGENT home begins/i),
      expect.stringMatching(/^SUMMARY anthropic\/claude-opus goes on in place of openai\/gpt: Another model answered so far/i),
      expect.stringMatching(/^ERROR anthropic\/claude-opus did not answer \(overloaded\); anthropic\/claude-haiku goes on/i),
      expect.stringMatching(/^OBSERVED .+ off → on at \d\d:\d\d/i),
    ]);
    expect(await answers.first().innerText()).toMatch(/5,510 tokens · \$0\.0421 · 8\.0 s · claude-haiku/);
    expect(await answers.last().innerText()).toMatch(/\$0\.0500 · 4\.0 s · claude-haiku · \$0\.0921 in this conversation/);
    const trouble = answers.last().getByRole("alert");
    expect(await trouble.innerText()).toMatch(/Your 0\.10 US dollars for today are spent\.[\s\S]*It can be tried again (in \d+ s|now)\.[\s\S]*Try again/);
    await browser.shot("home-cost");
  });

  test("the first load is light and nothing moves in it", async () => {
    await open();
    await page().waitForLoadState("load");
    await entity("light.kitchen").waitFor();
    const { weight, shift, foreign } = await page().evaluate(async () => {
      const files = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
      const shift = await new Promise<number>((done) => {
        let sum = 0;
        new PerformanceObserver((list) => {
          for (const e of list.getEntries()) sum += (e as PerformanceEntry & { value: number }).value;
        }).observe({ type: "layout-shift", buffered: true });
        requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
      });
      return {
        weight: files.filter((f) => /\.(js|css)$/.test(f.name)).reduce((sum, f) => sum + f.encodedBodySize, 0),
        foreign: files.map((f) => f.name).filter((n) => !n.startsWith(location.origin)),
        shift,
      };
    });
    expect(weight).toBeLessThan(170_000);
    expect(shift).toBeLessThan(0.02);
    expect(foreign).toEqual([]);
  });

  test("it can be read in the light", async () => {
    const p = parts(page());
    await page().addInitScript(() => localStorage.setItem("parley.theme", "light"));
    await open();
    await p.ask(question);
    await button("Allow once").waitFor();
    await browser.shot("home-light-permission");
    await button("Allow once").click();
    await p.done();
    await browser.shot("home-light-answer");
    await button("Timeline").click();
    await page().locator("[data-bar]").first().waitFor();
    await browser.shot("home-light-timeline");
  });
});

test("the list of apps leads to the page", async () => {
  browser = await startBrowser(roomy);
  await page().goto(`${stage.url}/`);
  await browser.shot("home-chooser");
  await page().getByRole("link", { name: /Home/ }).click();
  await page().waitForURL(/\/apps\/home\//);
  await page().getByRole("main").getByText(question).waitFor();
});

describe("on a phone", () => {
  beforeEach(async () => {
    browser = await startBrowser(phone, { touch: true });
  });

  test("the house lies over the chat when asked for, and nothing is wider than the screen", async () => {
    const p = parts(page());
    const wider = () => page().evaluate(() => document.documentElement.scrollWidth > innerWidth);
    await open();
    await page().getByRole("main").getByText(question).waitFor();
    await browser.shot("home-phone-empty");
    await p.ask(question);
    await button("Allow once").waitFor();
    await browser.shot("home-phone-permission");
    expect(await wider()).toBe(false);
    await button("Allow once").tap();
    await p.done();
    await browser.shot("home-phone-answer");
    expect(await wider()).toBe(false);
    await page().getByRole("list", { name: "Sources" }).getByRole("button", { name: "Mains voltage" }).tap();
    const drawer = page().getByRole("dialog", { name: "House" });
    await drawer.getByText("sensor.mains_voltage", { exact: true }).waitFor();
    await browser.shot("home-phone-house");
    expect(await wider()).toBe(false);
    await drawer.getByRole("button", { name: "Ask about it" }).tap();
    await drawer.waitFor({ state: "detached" });
    expect(await p.input.inputValue()).toBe("What is going on with sensor.mains_voltage?");
    await button("Timeline").tap();
    await page().locator("[data-bar]").first().waitFor();
    await browser.shot("home-phone-timeline");
    expect(await wider()).toBe(false);
  });
});
