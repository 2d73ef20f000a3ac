// A person logs in at an MCP server, in the browser, from the question in the conversation to the mail that is sent.

import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { desktop, parts, phone, startBrowser, startServer, temporary, type Server } from "./harness.ts";
import { startMailer, type Mailer } from "./mailer.ts";

const apps = temporary();
const data = temporary();
let mailer: Mailer;
let server: Server;

describe.runIf(!process.env["PARLEY_URL"])("a login at an MCP server", () => {
  beforeAll(async () => {
    mailer = await startMailer();
    const dir = join(apps, "desk");
    mkdirSync(dir);
    writeFileSync(join(dir, "clerk.md"), "Send the mail.");
    writeFileSync(
      join(dir, "app.yaml"),
      `model: scripted/desk
agents:
  clerk: {prompt: clerk.md, tools: ["mcp__post__*"]}
script: script.yaml
tools:
  mcp: {name: post, url: "${mailer.url}", auth: {login: {}}}
policy: {rules: [{verdict: allow}]}
resume: auto
`,
    );
    writeFileSync(
      join(dir, "script.yaml"),
      `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - when: eq .Question "Log in"
      call:
        - tool: mcp__post__login
          input: {}
    - call:
        - tool: mcp__post__mail
          input: {}
`,
    );
    process.env["PARLEY_VAULT_KEYS"] = randomBytes(32).toString("base64");
    server = await startServer({ data, apps, pace: "1ms" });
  });
  afterAll(async () => {
    delete process.env["PARLEY_VAULT_KEYS"];
    await server?.stop();
    mailer?.close();
    for (const dir of [apps, data]) rmSync(dir, { recursive: true, force: true });
  });

  // The first one, because nobody has logged in yet.
  test.each([
    ["phone", phone],
    ["desktop", desktop],
  ] as const)("can be done from the list of resources: %s", async (name, size) => {
    const browser = await startBrowser(size, { touch: name === "phone" });
    const { page, context } = browser;
    const { input } = parts(page);
    await page.addInitScript(() => localStorage.setItem("parley.theme", "system"));
    await page.goto(`${server.url}/apps/desk/`);
    await input.pressSequentially("What is in @");
    const link = page.getByRole("link", { name: /^Log in at 127\.0\.0\.1/ });
    await link.waitFor();
    await page.getByText("You are not logged in at the MCP server post.").waitFor();
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await violations(page)).toEqual([]);
      await browser.shot(`person-menu-${name}-${colorScheme}`);
    }
    expect(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
    if (name === "phone") {
      await browser.close();
      return;
    }
    await page.getByText("Its address").click();
    await page.getByText("code_challenge_method=S256").waitFor();
    const [there] = await Promise.all([context.waitForEvent("page"), link.click()]);
    await there.getByRole("link", { name: "Allow" }).click();
    await there.getByText("You are logged in at post. You can close this page and go back to your conversation, where post can be used now.").waitFor();
    for (const colorScheme of ["dark", "light"] as const) {
      await there.emulateMedia({ colorScheme });
      for (const at of [phone, { width: 1440, height: 900 }]) {
        await there.setViewportSize(at);
        await there.screenshot({ path: join(import.meta.dirname, `screenshots/person-listed-${colorScheme}-${at.width}.png`) });
      }
    }
    await there.close();
    await page.bringToFront();
    // The browser of a test has the focus in all its pages at once.
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.getByRole("listbox", { name: "Resources" }).getByText("Letter to Ana").waitFor();
    expect(await link.count()).toBe(0);
    expect(browser.complaints).toEqual([]);
    await browser.close();
    mailer.forget();
    const { logins } = (await (await fetch(`${server.url}/v1/logins`)).json()) as { logins: { id: string }[] };
    for (const { id } of logins) await fetch(`${server.url}/v1/logins/${id}`, { method: "DELETE" });
  });

  test("is asked for, done at the other server, and the conversation goes on", async () => {
    const browser = await startBrowser(desktop);
    const { page, context } = browser;
    const p = parts(page);
    await page.goto(`${server.url}/apps/desk/`);
    await p.ask("Log in");
    const link = page.getByRole("link", { name: /127\.0\.0\.1/ });
    await link.waitFor();
    expect(await violations(page)).toEqual([]);
    await browser.shot("person-asked");

    // The person says no: the agent is told so, and nothing else happens.
    const [refused] = await Promise.all([context.waitForEvent("page"), link.click()]);
    await refused.getByRole("link", { name: "Deny" }).click();
    await refused.getByText("You are not logged in at").waitFor();
    await refused.close();
    await p.done();
    await browser.shot("person-denied");
    expect(mailer.sent).toEqual([]);

    // The person says yes. Before that, the server was killed while it waited for the answer.
    await p.newChat.click();
    await p.ask("Log in");
    await link.waitFor();
    const addr = new URL(server.url).host;
    await server.kill?.();
    server = await startServer({ data, apps, addr, pace: "1ms" });
    const [asked] = await Promise.all([context.waitForEvent("page"), link.click()]);
    await asked.getByText(/^Parley .*wants to send mail in your name/).waitFor();
    await asked.getByRole("link", { name: "Allow" }).click();
    await asked.getByText("You are logged in at post. You can close this page; the conversation goes on by itself.").waitFor();
    expect(new URL(asked.url()).search).toBe("");
    expect(await violations(asked)).toEqual([]);
    await asked.setViewportSize(phone);
    await asked.screenshot({ path: join(import.meta.dirname, "screenshots/person-back-phone.png") });
    await asked.close();
    await p.done();
    await p.ask("Send it");
    await p.last.locator("p", { hasText: "The mail is sent." }).waitFor();
    await p.done();
    expect(mailer.sent).toHaveLength(1);
    await browser.shot("person-sent");
    expect(await page.content()).not.toContain(mailer.sent[0]);

    // The other server has ended the login: the call fails, the next one asks again, and one mail is sent.
    mailer.forget();
    await p.ask("Send it");
    await p.last.locator("p", { hasText: "call the tool again" }).waitFor();
    await p.done();
    await browser.shot("person-ended");
    await p.ask("Send it");
    await link.waitFor();
    const [again] = await Promise.all([context.waitForEvent("page"), link.click()]);
    await again.getByRole("link", { name: "Allow" }).click();
    await again.getByText("You are logged in at").waitFor();
    await p.done();
    expect(mailer.sent).toHaveLength(2);
    expect(mailer.sent[1]).not.toBe(mailer.sent[0]);
    expect(browser.complaints).toEqual([]);
    await browser.close();
  });
});
