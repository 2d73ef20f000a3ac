// The panel on the CRM's page, over the real server: an answer with its actions, a write that is shown as it will be sent,
// cancelled and confirmed; a reload and a killed server in the middle of an answer.

import { rmSync } from "node:fs";

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import { violations } from "./axe.ts";
import { phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import type { Sidecar } from "../public/sidecar.d.ts";

const data = temporary();
const desktop = { width: 1440, height: 900 };
let server: Server;
/** The CRM's page. Its address is free at the first start, and stays. */
let crm = "";

async function start(pace: string, addr?: string): Promise<Server> {
  const started = await startServer({ data, pace, ...(crm !== "" && { crm: new URL(crm).host }), ...(addr && { addr }) });
  const at = await vi.waitUntil(started.crm, { timeout: 90_000 });
  if (crm !== "" && at !== crm) throw new Error(`the CRM has moved from ${crm} to ${at}`);
  crm = at;
  return started;
}

const panel = (page: Page) => page.getByRole("dialog", { name: "CRM assistant" });
const last = (page: Page) => panel(page).locator("article").last();
const card = (page: Page) => panel(page).getByRole("group").last();

async function ask(page: Page, text: string): Promise<void> {
  await panel(page).getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
}

const idle = (page: Page) => expect.poll(() => last(page).getAttribute("data-state")).not.toBe("working");

/** The page of somebody who is logged in, with the panel open. */
async function desk(b: Browser, scheme: "light" | "dark" = "light"): Promise<Page> {
  const { page } = b;
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(crm);
  await page.getByText("Mara Lindqvist").first().click();
  await page.getByRole("button", { name: /^Open CRM assistant/ }).click();
  await panel(page).getByText("What can I do for you?").waitFor();
  return page;
}

const api = (page: Page, path: string) =>
  page.evaluate(async (path) => {
    const login = await (await fetch("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ email: "mara@fieldnote.example", password: "demo" }) })).json();
    return (await fetch(`/api${path}`, { headers: { Authorization: `Bearer ${login.token}`, "X-Org-Id": "org_fieldnote" } })).json();
  }, path) as Promise<{ items: { name: string }[]; total: number }>;

describe.runIf(!process.env["PARLEY_URL"])("the sidecar on the CRM's page", () => {
  beforeAll(async () => {
    server = await start("15ms");
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(data, { recursive: true, force: true });
  });

  test("answers, shows what a write will send, and makes it once it is confirmed", async () => {
    const b = await startBrowser(desktop, { reducedMotion: true });
    const page = await desk(b);
    const leads = (await api(page, "/leads")).total;
    await b.shot("sidecar-crm-empty");
    await ask(page, "How many leads do we have, by status?");
    await idle(page);
    expect(await last(page).locator(".actions").innerText()).toContain("/api/leads");
    await b.shot("sidecar-crm-answer");
    expect(await violations(page)).toEqual([]);

    await ask(page, "Create a lead for Nora Iversen at Severn Water Works.");
    await card(page).getByRole("button", { name: "Confirm" }).waitFor();
    await b.shot("sidecar-crm-card");
    expect(await violations(page)).toEqual([]);
    expect(await card(page).locator(".request .line").innerText()).toBe("POST /api/leads");
    expect(JSON.parse(await card(page).locator(".request pre").innerText())).toMatchObject({ name: "Nora Iversen" });
    await card(page).getByRole("button", { name: "Cancel" }).click();
    await panel(page).getByText("Cancelled: nothing was sent").waitFor();
    await idle(page);
    expect((await api(page, "/leads")).total).toBe(leads);
    await b.shot("sidecar-crm-cancelled");

    await ask(page, "Create a lead for Nora Iversen at Severn Water Works.");
    await panel(page).getByRole("button", { name: "Confirm" }).click();
    await panel(page).getByText("Done", { exact: true }).waitFor();
    await idle(page);
    expect((await api(page, "/leads")).total).toBe(leads + 1);
    await page.locator("main, #app").getByText("Nora Iversen").first().waitFor(); // the table behind has it
    await b.shot("sidecar-crm-done");
    expect(await violations(page)).toEqual([]);

    // The conversation is on the list, is renamed, found, opened again and deleted.
    await panel(page).getByRole("button", { name: "New conversation" }).click();
    await panel(page).getByRole("button", { name: "Conversations" }).click();
    await page.getByRole("button", { name: /^Rename How many leads/ }).click();
    await page.getByRole("textbox", { name: "Title" }).fill("Leads of the week");
    await page.keyboard.press("Enter");
    await page.getByRole("searchbox", { name: "Find a conversation" }).fill("of the week");
    await page.getByRole("button", { name: /^Leads of the week/ }).waitFor();
    await b.shot("sidecar-crm-history");
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: /^Leads of the week/ }).click();
    await panel(page).getByText("Done", { exact: true }).waitFor();
    await panel(page).getByRole("button", { name: "Conversations" }).click();
    await page.getByRole("button", { name: "Delete Leads of the week" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByText("No conversation yet.").waitFor();
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test("goes on after a reload and another page in the middle of an answer", async () => {
    await server.stop();
    server = await start("150ms");
    const b = await startBrowser(desktop, { reducedMotion: true });
    const page = await desk(b);
    await ask(page, "How many leads do we have, by status?");
    await expect.poll(() => last(page).locator(".prose").count()).toBe(1);
    await page.reload();
    await expect.poll(() => last(page).getAttribute("data-state")).toBe("working");
    await expect.poll(() => page.locator("html").getAttribute("data-panel")).toBe(""); // the page goes aside for it
    await b.shot("sidecar-crm-reloaded");
    await idle(page);
    const text = await last(page).innerText();
    expect(text).toContain("Skill leads");
    expect(await last(page).getAttribute("data-state")).toBe("done");
    expect(await panel(page).locator(".asked").count()).toBe(1);
    // A card that waits is still there on the next page, and is confirmed there.
    await ask(page, "Create a lead for Liv Strand at Severn Water Works.");
    await panel(page).getByRole("button", { name: "Confirm" }).waitFor();
    await page.goto(`${crm}/#/companies`);
    await page.reload();
    expect(await panel(page).locator("article").first().innerText()).toBe(text);
    await panel(page).getByRole("button", { name: "Confirm" }).click();
    await panel(page).getByText("Done", { exact: true }).waitFor();
    await idle(page);
    await b.close();
  });

  test("goes on when the server was killed in the middle of an answer", async () => {
    const b = await startBrowser(desktop, { reducedMotion: true });
    const page = await desk(b);
    const before = (await api(page, "/leads")).total;
    await ask(page, "How many leads do we have, by status?");
    await expect.poll(() => last(page).locator(".prose").count()).toBe(1);
    const addr = new URL(server.url).host;
    await server.kill?.();
    await panel(page).getByText("The connection was lost.").waitFor();
    await b.shot("sidecar-crm-lost");
    expect(await violations(page)).toEqual([]);
    server = await start("5ms", addr);
    await panel(page).getByRole("button", { name: "Try now" }).click({ timeout: 2000 }).catch(() => undefined);
    await idle(page);
    expect(await last(page).getAttribute("data-state")).toBe("done");
    expect(await panel(page).locator(".asked").count()).toBe(1);
    // A card survives it, too.
    await ask(page, "Create a lead for Ida Berg at Severn Water Works.");
    await panel(page).getByRole("button", { name: "Confirm" }).waitFor();
    await server.kill?.();
    server = await start("5ms", addr);
    await panel(page).getByRole("button", { name: "Confirm" }).click();
    await panel(page).getByText("Done", { exact: true }).waitFor();
    await idle(page);
    expect((await api(page, "/leads")).total).toBe(before + 1);
    await b.shot("sidecar-crm-after");
    await b.close();
  });

  test("asks the page for a token when its own is refused, and goes on", async () => {
    const b = await startBrowser(desktop, { reducedMotion: true });
    const page = await desk(b);
    await page.evaluate(async () => {
      const s = window.ParleySidecar as Sidecar;
      const heard: string[] = ((window as unknown as { heard: string[] }).heard = []);
      s.configure({
        getToken: async (why) => {
          heard.push(why);
          const r = await fetch("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ email: "mara@fieldnote.example", password: "demo" }) });
          return (await r.json()).token as string;
        },
        token: "not-a-token-of-anybody",
      });
    });
    await ask(page, "How many leads do we have, by status?");
    await idle(page);
    expect(await last(page).getAttribute("data-state")).toBe("done");
    expect(await page.evaluate(() => (window as unknown as { heard: string[] }).heard)).toContain("refused");
    await b.close();
  });

  test("a login that ends before a write is confirmed is renewed, and the write is made once", async () => {
    const b = await startBrowser(desktop, { reducedMotion: true });
    const page = await desk(b);
    const before = (await api(page, "/leads")).total;
    await page.evaluate(async () => {
      const login = async () => {
        const r = await fetch("/api/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ email: "mara@fieldnote.example", password: "demo" }) });
        return (await r.json()).token as string;
      };
      const token = await login();
      (window as unknown as { logOut: () => Promise<unknown> }).logOut = () => fetch("/api/logout", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
      (window.ParleySidecar as Sidecar).configure({ getToken: login, token });
    });
    await ask(page, "Create a lead for Nils Aas at Severn Water Works.");
    await panel(page).getByRole("button", { name: "Confirm" }).waitFor();
    await page.evaluate(() => (window as unknown as { logOut: () => Promise<unknown> }).logOut());
    await panel(page).getByRole("button", { name: "Confirm" }).click();
    await panel(page).getByText("Done", { exact: true }).waitFor();
    await idle(page);
    expect(await last(page).getAttribute("data-state")).toBe("done");
    expect((await api(page, "/leads")).total).toBe(before + 1);
    await b.close();
  });

  test.each([
    [phone, "light"],
    [phone, "dark"],
    [{ width: 768, height: 1024 }, "light"],
    [{ width: 768, height: 1024 }, "dark"],
    [desktop, "dark"],
  ] as const)("can be looked at, %o in the %s", async (size, scheme) => {
    const b = await startBrowser(size, { touch: size === phone, reducedMotion: true });
    const page = await desk(b, scheme);
    const shot = (name: string) => b.shot(`sidecar-${size.width}-${scheme}-${name}`);
    await shot("empty");
    await ask(page, "How many leads do we have, by status?");
    await idle(page);
    await shot("answer");
    expect(await violations(page)).toEqual([]);
    await ask(page, "Create a lead for Eva Lund at Severn Water Works.");
    await panel(page).getByRole("button", { name: "Confirm" }).waitFor();
    await shot("card");
    expect(await violations(page)).toEqual([]);
    await panel(page).getByRole("button", { name: "Cancel" }).click();
    await idle(page);
    await shot("cancelled");
    expect(await violations(page)).toEqual([]);
    await b.close();
  });
});
