import { rmSync } from "node:fs";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import type { Event } from "../src/api/types.gen.ts";
import { desktop, parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const first = "I'm starting on the login system. What's the final spec?";
const second = "What library should I use for that?";

let server: Server;
/** A server whose answers take seconds. So a test is in time for the middle of one, even on a busy machine. */
let slow: Server;
let browser: Browser;

beforeAll(async () => {
  server = await startServer({ pace: "15ms" });
  slow = await startServer({ pace: "45ms" });
});
afterAll(() => Promise.all([server.stop(), slow.stop()]));

afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const home = (of: Server = server) => `${of.url}/apps/chaos/`;
const stored = () => page().evaluate(() => JSON.parse(localStorage.getItem("chaoscontext_sessions") ?? "[]") as { messages: { role: string; content: string; isStreaming: boolean; thoughts: unknown[] }[] }[]);

describe("on a desktop", () => {
  beforeEach(async () => {
    browser = await startBrowser(desktop);
    await page().goto(home());
  });

  test("the demo: three agents are seen at work, the newest source wins, and the follow-up is answered from memory", async () => {
    const p = parts(page());
    await page().getByText(first).waitFor();
    await page().getByRole("main").getByRole("button", { name: first }).waitFor();
    expect(await page().getByRole("button", { name: second }).count()).toBe(0);
    await browser.shot("desktop-empty");
    await p.ask(first);
    await page().getByText("→ calling read_slack_mock").waitFor();
    await browser.shot("desktop-thinking");
    await p.done();
    await p.last.getByRole("button", { name: /Thought process/ }).click();
    const lines = await p.last.locator("section li, section h3").allInnerTexts();
    expect(lines.map((l) => l.replace(/\(".*"\)$/, '("…")').replace(/(← result: \[\w+).*/s, "$1"))).toEqual([
      "INTERFACE",
      "▶ interface agent activated",
      "⇒ handing off to scavenger",
      "SCAVENGER",
      "▶ scavenger agent activated",
      '→ calling read_notion_mock("…")',
      "← result: [Notion",
      '→ calling read_slack_mock("…")',
      "← result: [Slack",
      "⇒ handing off to synthesizer",
      "SYNTHESIZER",
      "▶ synthesizer agent activated",
      "⇒ handing off to interface",
      "INTERFACE",
      "▶ interface agent activated",
    ]);
    expect(await p.last.locator(".prose").innerText()).toMatch(/Google OAuth/);
    expect(await p.last.innerText()).toMatch(/[\d,]+ tokens · \$\d+\.\d\d · [\d.]+ s/);
    await browser.shot("desktop-answer-1");

    // Suggestions that refer to an answer are offered only if there is one.
    await page().getByRole("list", { name: "Ask next" }).getByRole("button", { name: second }).click();
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    await p.last.getByRole("button", { name: /Thought process/ }).click();
    expect(await p.last.locator("section li").allInnerTexts()).toEqual(["▶ interface agent activated"]);
    const answer = await p.last.locator(".prose").innerText();
    expect(answer).toContain("react-oauth/google");
    expect(answer).toContain("authlib");
    await browser.shot("desktop-answer-2");

    const list = await stored();
    expect(list).toHaveLength(1);
    expect(list[0]).toMatchObject({ id: expect.any(String), createdAt: expect.any(String), preview: first.slice(0, 40) });
    expect(list[0]?.messages.map((m) => [m.role, m.isStreaming, m.thoughts.length])).toEqual([
      ["user", false, 0],
      ["assistant", false, 11],
      ["user", false, 0],
      ["assistant", false, 1],
    ]);
  });

  test("it looks as its tokens say", async () => {
    const p = parts(page());
    await p.ask(second);
    await p.done();
    const style = (selector: string, ...names: string[]) =>
      page().evaluate(
        ([selector, names]) => {
          const s = getComputedStyle(document.querySelector(selector as string) as Element);
          return (names as string[]).map((n) => s.getPropertyValue(n));
        },
        [selector, names] as const,
      );
    expect(await style("body", "background-color", "color")).toEqual(["rgb(10, 10, 10)", "rgb(237, 237, 237)"]);
    expect(await style("aside", "width", "background-color", "border-right-color")).toEqual(["260px", "rgb(20, 20, 20)", "rgb(39, 39, 42)"]);
    expect(await style("article > div > [dir=auto]", "background-color", "font-size")).toEqual(["rgb(39, 39, 42)", "16px"]);
    expect(await style("article section", "background-color", "border-left", "font-size", "color")).toEqual([
      "rgb(20, 20, 20)",
      "2px solid rgb(255, 130, 5)",
      "13px",
      "rgb(161, 161, 170)",
    ]);
    expect(await style("li[data-active]", "border-left-color")).toEqual(["rgb(255, 130, 5)"]);
    expect(await style("form", "background-color", "border-radius")).toEqual(["rgb(20, 20, 20)", "12px"]);
    expect(await style(".prose", "line-height", "font-size")).toEqual(["25.6px", "16px"]);
    expect(await style('button[type="submit"]', "background-color", "color")).toEqual(["rgba(0, 0, 0, 0)", "rgb(161, 161, 170)"]);
    await p.input.fill("x");
    await expect.poll(() => style('button[type="submit"]', "background-color", "color")).toEqual(["rgb(255, 130, 5)", "rgb(10, 10, 10)"]);
    expect(await page().evaluate(() => [document.fonts.check('16px "Inter Variable"'), document.fonts.check('13px "Geist Mono Variable"')])).toEqual([true, true]);
  });

  test("the first load is light and nothing moves in it", async () => {
    await page().waitForLoadState("networkidle");
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

  test("a reload in the middle of an answer finds it, and it goes on to its end", async () => {
    const p = parts(page());
    await page().goto(home(slow));
    await p.ask(first);
    await p.last.locator(".streaming").waitFor();
    const before = await p.last.locator(".prose").innerText();
    await page().reload();
    await p.last.locator(".prose").waitFor();
    expect((await p.last.locator(".prose").innerText()).startsWith(before.slice(0, 20))).toBe(true); // there may be more by now
    expect(await p.input.isDisabled()).toBe(true);
    await p.done();
    expect(await p.answers.count()).toBe(1);
    expect(await p.input.isEnabled()).toBe(true);
    await expect.poll(async () => (await stored())[0]?.messages[1]?.isStreaming).toBe(false);
    await page().reload();
    await p.done();
    expect(await p.answers.count()).toBe(1);
  });

  test("an answer can be stopped, and asked for again", async () => {
    const p = parts(page());
    await page().goto(home(slow));
    await p.ask(first);
    await p.last.locator(".streaming").waitFor();
    await p.stop.click();
    await p.last.getByText(/^Stopped/).waitFor();
    expect(await p.last.innerText()).toMatch(/at most [\d,]+ tokens/);
    await browser.shot("desktop-stopped");
    expect(await p.input.isEnabled()).toBe(true);
    await p.last.getByRole("button", { name: "Try again" }).click();
    await p.stop.waitFor();
    await p.done();
    await expect.poll(() => p.last.innerText()).toMatch(/attempt 2/);
    expect(await p.answers.count()).toBe(1);
  });

  test("a message that does not get through says so and can be sent again, once", async () => {
    const p = parts(page());
    await page().route("**/v1/sessions/*/turns", (route) => route.abort(), { times: 1 });
    await p.ask(second);
    await p.last.getByText("The server cannot be reached.").waitFor();
    await browser.shot("desktop-unsent");
    expect(await p.send.isDisabled()).toBe(true);
    await page().getByRole("button", { name: "Send again" }).click();
    await p.done();
    expect(await p.answers.count()).toBe(1);
  });

  test("a turn that fails says why, and can be tried again", async () => {
    const p = parts(page());
    const outside = `few-steps-${Date.now()}`;
    await page().evaluate(
      async ([url, outside_id]) => {
        const body = JSON.stringify({ app: "chaos", outside_id, budgets: { max_steps: 1 } });
        await fetch(`${url}/v1/sessions`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      },
      [server.url, outside] as const,
    );
    await page().goto(`${home()}#/${outside}`);
    await page().getByText(first).waitFor();
    await p.ask(first);
    const again = p.last.getByRole("button", { name: "Try again" });
    await again.waitFor();
    expect(await p.last.getByRole("alert").innerText()).toMatch(/step/);
    await browser.shot("desktop-failed");
    await again.click();
    await expect.poll(() => p.last.innerText()).toMatch(/attempt 2/);
    expect(await p.answers.count()).toBe(1);
    await page().reload();
    await again.waitFor();
    expect(await p.answers.count()).toBe(1);
  });

  test("a call that is asked for can be allowed where it is asked", async () => {
    const p = parts(page());
    const outside = `asks-${Date.now()}`;
    await page().evaluate(
      async ([url, outside_id]) => {
        const body = JSON.stringify({ app: "chaos", outside_id, policy: { rules: [{ verdict: "ask", tool: "read_slack_mock" }] } });
        await fetch(`${url}/v1/sessions`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      },
      [server.url, outside] as const,
    );
    await page().goto(`${home()}#/${outside}`);
    await page().getByText(first).waitFor();
    await p.ask(first);
    await page().getByRole("button", { name: "Allow once" }).waitFor();
    await page().getByRole("button", { name: /^Inbox: 1 question waits/ }).waitFor();
    expect(await p.last.getByText("Thinking…").count()).toBe(0);
    await browser.shot("desktop-permission");
    await page().reload();
    await page().getByRole("button", { name: "Allow once" }).click();
    await p.done();
    expect(await p.last.innerText()).toMatch(/Allowed once · Allow read_slack_mock/);
    expect(await p.last.locator(".prose").innerText()).toMatch(/Google OAuth/);
  });

  test("words under a call that is asked for decline it, and say that they do", async () => {
    const p = parts(page());
    const outside = `declines-${Date.now()}`;
    await page().evaluate(
      async ([url, outside_id]) => {
        const body = JSON.stringify({ app: "chaos", outside_id, max_open_turns: 2, policy: { rules: [{ verdict: "ask", tool: "read_slack_mock" }] } });
        await fetch(`${url}/v1/sessions`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      },
      [server.url, outside] as const,
    );
    await page().goto(`${home()}#/${outside}`);
    await page().getByText(first).waitFor();
    await p.ask(first);
    await page().getByRole("button", { name: "Allow once" }).waitFor();
    const sent: unknown[] = [];
    page().on("request", (r) => r.method() === "POST" && /\/turns$/.test(r.url()) && sent.push(r.postDataJSON()));
    await page().getByText("Declines what is asked above and says this instead.").waitFor();
    const later = page().getByText("After this", { exact: true });
    await later.click();
    await page().getByText("What is asked above stays open.").waitFor();
    expect(await p.input.getAttribute("placeholder")).toBe("What to do after this");
    await page().getByText("Instead", { exact: true }).click();
    await p.input.fill("Leave Slack alone.");
    await browser.shot("desktop-decline");
    await page().getByRole("button", { name: "Decline and say this" }).click();
    await page().getByText(/Denied · Allow read_slack_mock/).waitFor();
    await p.done();
    expect(sent).toEqual([{ message: "Leave Slack alone.", busy: "steer" }]);
    expect(await page().getByText("“Leave Slack alone.”").count()).toBe(1);
  });

  test("a refusal shows the server's words and its hint", async () => {
    const p = parts(page());
    const body = JSON.stringify({ error: { code: "busy", message: "A turn is running in this session.", hint: "Wait for its end." } });
    await page().route("**/v1/sessions/*/turns", (route) => route.fulfill({ status: 409, contentType: "application/json", body }), { times: 1 });
    await p.ask(second);
    await p.last.getByText("A turn is running in this conversation.").waitFor();
    expect(await p.last.getByText("Wait for its end.").count()).toBe(1);
    await page().getByRole("button", { name: "Edit" }).click();
    await expect.poll(() => p.input.inputValue()).toBe(second);
    expect(await p.answers.count()).toBe(0);
  });

  test("a conversation is renamed and deleted, with the keyboard alone", async () => {
    const p = parts(page());
    await p.ask(second);
    await p.done();
    await p.sessions.first().focus();
    await page().keyboard.press("F2");
    await page().getByRole("textbox", { name: "Name of the conversation" }).fill("Login");
    await page().keyboard.press("Enter");
    await expect.poll(() => p.sessions.first().innerText()).toMatch(/^Login/);
    await page().reload();
    await expect.poll(() => p.sessions.first().innerText()).toMatch(/^Login/);
    expect(await page().title()).toMatch(/^Login/);

    await p.sessions.first().focus();
    await page().keyboard.press("Tab");
    await page().keyboard.press("Enter");
    await page().getByRole("menuitem", { name: "Rename" }).waitFor();
    await browser.shot("desktop-menu");
    await page().keyboard.press("End");
    await page().keyboard.press("Enter");
    await page().getByRole("dialog").waitFor();
    await browser.shot("desktop-delete");
    await page().keyboard.press("Escape");
    await page().getByRole("dialog").waitFor({ state: "detached" });
    expect(await p.sessions.count()).toBe(1);
    // The dialog gives the focus back when it is gone; only then can it go elsewhere.
    await expect.poll(() => page().evaluate(() => document.activeElement !== document.body)).toBe(true);
    await p.sessions.first().press("Delete");
    await page().getByRole("dialog").getByRole("button", { name: "Delete" }).focus();
    await page().keyboard.press("Enter");
    await expect.poll(() => p.sessions.count()).toBe(0);
    expect(await stored()).toEqual([]);
    await page().goBack();
    await page().getByText("This conversation is not here").waitFor();
  });

  test("everything can be reached and done without a mouse", async () => {
    const p = parts(page());
    await page().goto(home(slow));
    await expect.poll(() => p.input.evaluate((e) => e === document.activeElement)).toBe(true);
    await page().keyboard.type("one");
    await page().keyboard.press("Shift+Enter");
    await page().keyboard.type("two");
    expect(await p.input.inputValue()).toBe("one\ntwo");
    const height = () => p.input.evaluate((e) => e.clientHeight);
    expect(await height()).toBe(48);
    await p.input.fill("1\n2\n3\n4\n5\n6\n7\n8");
    await expect.poll(height).toBe(120);
    await p.input.fill(first); // the longer answer, which has not ended when the keys below are pressed
    await page().keyboard.press("Enter");
    await expect.poll(() => p.stop.evaluate((e) => e.closest("form") === document.activeElement), { message: "who types on does not stop the answer" }).toBe(true);
    await page().keyboard.type("and then? ");
    expect(await p.stop.count()).toBe(1);
    await page().keyboard.press("Tab");
    expect(await p.stop.evaluate((e) => e === document.activeElement)).toBe(true);
    await p.done();
    await expect.poll(() => p.input.evaluate((e) => e === document.activeElement), { message: "the focus comes back" }).toBe(true);

    const seen = new Set<string>();
    for (let i = 0; i < 30; i++) {
      await page().keyboard.press("Tab");
      seen.add(
        await page().evaluate(() => {
          const e = document.activeElement as HTMLElement;
          return e.getAttribute("aria-label") ?? (e.hasAttribute("data-session") ? "session" : e.innerText.split("\n")[0]) ?? "";
        }),
      );
    }
    for (const name of ["New Chat", "session", "Thought process", "Copy answer", "Try again"]) expect([...seen].some((s) => s.startsWith(name)), name).toBe(true);

    // It is folded when the answer is there, and keeps the state that the user gives it.
    const thoughts = page().getByRole("button", { name: /Thought process/ });
    expect(await thoughts.getAttribute("aria-expanded")).toBe("false");
    await thoughts.focus();
    await page().keyboard.press("Enter");
    await expect.poll(() => thoughts.getAttribute("aria-expanded")).toBe("true");
    await p.newChat.click();
    await p.sessions.first().click();
    await expect.poll(() => thoughts.getAttribute("aria-expanded")).toBe("true");
    await page().keyboard.press("/");
    await expect.poll(() => p.input.evaluate((e) => e === document.activeElement)).toBe(true);
    await page().keyboard.press("Control+Shift+O");
    await page().getByRole("button", { name: first }).first().waitFor();
    expect(await p.answers.count()).toBe(0);
    await page().goBack();
    await p.done();
  });

  test("what happens is announced by step and by answer, not by token", async () => {
    const p = parts(page());
    await page().locator('[aria-live="polite"][role="log"]').waitFor({ state: "attached" });
    await page().evaluate(() => {
      const said: string[] = [];
      Object.assign(window, { said });
      const log = document.querySelector('[aria-live="polite"][role="log"]') as Element;
      new MutationObserver(() => said.push(log.textContent ?? "")).observe(log, { childList: true, characterData: true, subtree: true });
    });
    await p.ask(first);
    await p.done();
    const heard = () => page().evaluate(() => (window as unknown as { said: string[] }).said);
    await expect.poll(async () => (await heard()).at(-1)).toMatch(/^Answer: .*Google OAuth/s); // which is said after it is drawn
    const said = await heard();
    // A step that ends before the page has drawn it is not announced. A busy machine leaves some out, but none comes
    // twice, late, or in another order.
    const steps = ["interface", "scavenger", "synthesizer", "interface"].map((a) => `${a} agent activated`);
    expect(said.length).toBeGreaterThan(1);
    let at = 0;
    for (const s of said.slice(0, -1)) {
      at = steps.indexOf(s, at) + 1;
      expect(at, `${s} in its order among ${said.join(", ")}`).toBeGreaterThan(0);
    }
  });

  test("the light theme is a choice, and is kept", async () => {
    const p = parts(page());
    await p.ask(second);
    await p.done();
    await page().getByRole("button", { name: /^Theme/ }).click();
    await page().getByRole("menuitemradio", { name: "Light" }).click();
    const background = () => page().evaluate(() => getComputedStyle(document.body).backgroundColor);
    expect(await background()).toBe("rgb(255, 255, 255)");
    await page().reload();
    await p.done();
    expect(await background()).toBe("rgb(255, 255, 255)");
    await browser.shot("desktop-light");
    await page().getByRole("button", { name: /^Theme/ }).click();
    await page().getByRole("menuitemradio", { name: "As the system" }).click();
    await page().emulateMedia({ colorScheme: "dark" });
    expect(await background()).toBe("rgb(10, 10, 10)");
  });

  test("the notice that the model is a demo is shown until it was read, once", async () => {
    await page().getByText(/a script answers/).waitFor();
    await page().getByRole("button", { name: "Got it" }).click();
    await page().reload();
    await page().getByText(first).waitFor();
    expect(await page().getByText(/a script answers/).count()).toBe(0);
  });

  test("a session that only this browser has is read, and its length does not matter", async () => {
    await page().evaluate(() => {
      const messages = Array.from({ length: 2000 }, (_, i) => ({
        id: String(i),
        role: i % 2 ? "assistant" : "user",
        content: i % 2 ? `Answer **${i}**.\n\n- one\n- two\n\n\`\`\`js\nlet x = ${i};\n\`\`\`` : `Question ${i}`,
        thoughts: i % 2 ? [{ type: "agent_start", agent: "interface" }] : [],
        isStreaming: false,
      }));
      localStorage.setItem("chaoscontext_sessions", JSON.stringify([{ id: "old", createdAt: "2026-01-02T03:04:05Z", preview: "Question 0", messages }]));
    });
    await page().reload();
    const p = parts(page());
    await p.sessions.first().click();
    await page().getByText("kept only in this browser").waitFor();
    await page().getByText("Question 1998").waitFor();
    expect(await p.answers.count()).toBeLessThan(70);
    const list = page().getByRole("region", { name: "Conversation" });
    await list.evaluate((e) => (e.scrollTop = 0));
    await expect.poll(() => p.answers.count()).toBeGreaterThan(35);
    await page().getByRole("button", { name: "Jump to latest" }).click();
    await page().getByRole("button", { name: "Jump to latest" }).waitFor({ state: "detached" });
  });

  test("a reader further up is not scrolled down", async () => {
    const p = parts(page());
    await page().goto(home(slow));
    await p.ask(first);
    await p.done();
    await p.ask(first);
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.last.locator("section").waitFor();
    const list = page().getByRole("region", { name: "Conversation" });
    await list.evaluate((e) => (e.scrollTop = 0));
    await page().getByRole("button", { name: "Follow the answer" }).waitFor();
    await p.done();
    expect(await list.evaluate((e) => e.scrollTop)).toBe(0);
    await page().getByRole("button", { name: "Jump to latest" }).click();
    await expect.poll(() => list.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight)).toBeLessThan(2);
  });

  test("two windows show one session", async () => {
    const p = parts(page());
    await page().goto(home(slow));
    await p.ask(second);
    await p.done();
    const other = await browser.context.newPage();
    await other.goto(page().url());
    const q = parts(other);
    await q.done();
    await p.ask(first);
    await q.stop.waitFor();
    for (const window of [p, q]) {
      await expect.poll(() => window.answers.count()).toBe(2);
      await window.done();
    }
    expect(await q.last.locator(".prose").innerText()).toBe(await p.last.locator(".prose").innerText());
  });
});

describe("on a phone", () => {
  beforeEach(async () => {
    browser = await startBrowser(phone, { touch: true });
    await page().goto(home());
  });

  test("the sidebar lies over the chat when asked for, and nothing is wider than the screen", async () => {
    const p = parts(page());
    await page().getByText(first).waitFor();
    await browser.shot("phone-empty");
    const wide = () => page().evaluate(() => document.documentElement.scrollWidth);
    expect(await wide()).toBe(390);
    await p.ask(first);
    await p.done();
    await browser.shot("phone-answer-1");
    await p.ask(second);
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    await browser.shot("phone-answer-2");
    expect(await wide()).toBe(390);

    const sidebar = page().getByRole("complementary", { name: "Conversations", includeHidden: true });
    expect(await sidebar.isVisible()).toBe(false);
    await page().getByRole("button", { name: "Conversations" }).tap();
    await expect.poll(() => sidebar.boundingBox().then((b) => [b?.x, b?.width])).toEqual([0, 260]);
    await browser.shot("phone-sidebar");
    await page().keyboard.press("Escape");
    await expect.poll(() => sidebar.isVisible()).toBe(false);
    await page().getByRole("button", { name: "Conversations" }).tap();
    await p.newChat.tap();
    await expect.poll(() => sidebar.isVisible()).toBe(false);
    await page().getByText(first).waitFor();
    await page().getByRole("button", { name: "Conversations" }).tap();
    await p.sessions.first().tap();
    await p.done();
    expect(await p.answers.count()).toBe(2);
  });
});

describe("with reduced motion", () => {
  test("nothing blinks", async () => {
    browser = await startBrowser(desktop, { reducedMotion: true });
    await page().goto(home());
    const p = parts(page());
    await p.ask(first);
    await p.last.waitFor();
    expect(await page().evaluate(() => document.getAnimations().filter((a) => a.playState === "running").length)).toBe(0);
    await p.done();
  });
});

describe.runIf(!process.env["PARLEY_URL"])("when the server is killed in the middle of an answer", () => {
  test("the page waits for it, and the answer comes to its end", async () => {
    browser = await startBrowser(desktop);
    const data = temporary();
    onTestFinished(() => rmSync(data, { recursive: true, force: true }));
    const before = await startServer({ data, pace: "60ms" });
    onTestFinished(() => before.stop());
    await page().goto(`${before.url}/apps/chaos/`);
    const p = parts(page());
    await p.ask(first);
    await p.last.locator(".streaming").waitFor();
    await before.kill?.();
    await page().getByText("Reconnecting…").waitFor();
    await browser.shot("desktop-reconnecting");
    const after = await startServer({ data, addr: before.url.replace("http://", ""), pace: "10ms" });
    onTestFinished(() => after.stop());
    await p.done();
    await page().getByText("Reconnecting…").waitFor({ state: "detached" });
    expect(await p.answers.count()).toBe(1);
    expect(await p.last.locator(".prose").innerText()).toMatch(/Google OAuth/);
  });
});

describe.runIf(!process.env["PARLEY_URL"])("when an interrupted answer goes on by itself", () => {
  test("the page says so without a button, and the answer comes once", async () => {
    browser = await startBrowser(desktop);
    const data = temporary();
    onTestFinished(() => rmSync(data, { recursive: true, force: true }));
    const before = await startServer({ data, pace: "60ms" });
    onTestFinished(() => before.stop());
    await page().goto(`${before.url}/apps/chaos/`);
    const p = parts(page());
    await p.ask(first);
    await p.last.locator(".streaming").waitFor();
    await before.kill?.();

    // Usually the interruption and what follows reach the page at once. Here the page gets the log
    // only up to the interruption, and its connection ends, until the test has seen that state.
    const follows = /\/v1\/sessions\/[^/]+\/events\?/;
    await page().route(follows, async (route) => {
      const request = route.request();
      const after = request.headers()["last-event-id"] ?? "0";
      const log = await fetch(`${request.url().split("?")[0]}?format=json&after=${after}`).catch(() => undefined); // the server is not back yet
      const { events } = ((await log?.json()) ?? { events: [] }) as { events: Event[] };
      const end = events.findIndex((e) => e.type === "turn.interrupted");
      const body = events.slice(0, end + 1).map((e) => `id: ${e.seq}\nevent: ${e.type}\ndata: ${JSON.stringify(e)}\n\n`);
      await (log ? route.fulfill({ contentType: "text/event-stream", body: body.join("") }) : route.abort());
    });
    const after = await startServer({ data, addr: before.url.replace("http://", ""), pace: "10ms" });
    onTestFinished(() => after.stop());
    await p.last.getByText("It goes on by itself.").waitFor();
    expect(await p.last.getByRole("button", { name: /Go on|Begin again|Try again/ }).count()).toBe(0);
    await browser.shot("desktop-goes-on");

    await page().unrouteAll({ behavior: "wait" }); // a request may be under way
    await p.done();
    await p.last.getByText("It goes on by itself.").waitFor({ state: "detached" });
    expect(await p.answers.count()).toBe(1);
    expect(await p.last.locator(".prose").count()).toBe(1);
    const answer = await p.last.locator(".prose").innerText();
    expect(answer).toMatch(/Google OAuth/);
    expect(answer.split(answer.split("\n")[0]!).length - 1, "the verdict is there once").toBe(1);
  });
});

test("the list of apps leads to the page", async () => {
  browser = await startBrowser(desktop);
  await page().goto(`${server.url}/`);
  // With one app there is nothing to choose.
  const link = page().getByRole("link", { name: /ChaosContext/ });
  await expect.poll(async () => page().url().includes("/apps/chaos/") || (await link.count()) === 1).toBe(true);
  if (!page().url().includes("/apps/chaos/")) await link.click();
  await page().waitForURL(/\/apps\/chaos\//);
  await page().getByText(first).waitFor();
});
