// The page on a server where people sign in at a provider.

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { desktop, parts, phone, startBrowser, startServer, type Browser, type Server } from "./harness.ts";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  delete process.env["PARLEY_URL"];
  server = await startServer({ pace: "5ms", login: true });
});
afterAll(() => server.stop());

beforeEach(async () => {
  browser = await startBrowser(desktop);
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const gate = (b = browser) => b.page.getByRole("dialog", { name: "Sign in" });
const provider = (b = browser) => b.page.getByRole("heading", { name: /^Sign in to/ });

/** Signs in from the page that asks for it. */
async function signIn(as: RegExp, b = browser): Promise<void> {
  await gate(b).getByRole("link", { name: /^Continue with/ }).click();
  await provider(b).waitFor();
  await b.page.getByRole("button", { name: as }).click();
}

/** The page in light colours. */
async function light(b = browser): Promise<void> {
  await b.page.getByRole("button", { name: /^Theme:/ }).click();
  await b.page.getByRole("menuitemradio", { name: "Light" }).click();
}

test("a person signs in, is back where they were, and stays signed in", async () => {
  const { page } = browser;
  const p = parts(page);
  await page.goto(`${server.url}/apps/chaos/?from=mail`);
  await gate().waitFor();
  await browser.shot("signin-gate");
  await page.keyboard.press("Escape"); // there is nothing behind it
  await signIn(/Ana Ortiz/);
  await page.waitForURL(`${server.url}/apps/chaos/?from=mail`);
  await p.ask("What was decided last?");
  await p.done();
  await page.reload();
  await p.done();
  expect(await gate().count()).toBe(0);
  expect(await page.evaluate(() => document.cookie)).toBe("");
  await page.getByRole("button", { name: /^App:/ }).click();
  await page.getByRole("menuitem", { name: "Your account" }).click();
  await page.getByText("Ana Ortiz").waitFor();
  await page.getByText("This browser").waitFor();
});

test("who changes their mind at the provider is told so", async () => {
  const { page } = browser;
  await page.goto(`${server.url}/apps/chaos/`);
  await signIn(/Cancel/);
  await gate().getByRole("alert").filter({ hasText: "You did not sign in" }).waitFor();
  expect(new URL(page.url()).hash).toBe("");
  await browser.shot("signin-denied");
  await gate().getByText("Use a key instead").click();
  await gate().getByLabel("Key", { exact: true }).waitFor();
});

test("a browser is signed out from another one, while a page is open in it", async () => {
  const other = await startBrowser(phone, { touch: true });
  try {
    await browser.page.goto(`${server.url}/apps/chaos/`);
    await signIn(/Bea Lang/);
    await parts(browser.page).ask("What was decided last?");
    await parts(browser.page).done();
    await other.page.goto(`${server.url}/account.html`);
    await signIn(/Bea Lang/, other);
    await other.page.getByRole("heading", { name: "Your account" }).waitFor();
    await other.page.getByRole("list").first().waitFor();
    await other.shot("account-phone");
    await light(other);
    await other.shot("account-phone-light");
    await other.page.getByRole("button", { name: /^Sign out Chrome/ }).click();
    const asked = other.page.getByRole("dialog", { name: "Sign this browser out?" });
    await asked.getByRole("button", { name: "Sign out" }).click();
    await expect.poll(() => other.page.getByRole("button", { name: /^Sign out Chrome/ }).count()).toBe(0);
    await gate().waitFor();
    await gate().getByRole("alert").filter({ hasText: "You were signed out" }).waitFor();
    await browser.shot("signin-ended");
    await other.page.getByRole("button", { name: "Sign out", exact: true }).click();
    await gate(other).waitFor();
    expect(other.complaints).toEqual([]);
  } finally {
    await other.close();
  }
});

test("the page of the account, with keys", async () => {
  await browser.page.goto(`${server.url}/account.html`);
  await signIn(/Chris Wood/);
  await browser.page.getByText("No key acts as you.").waitFor();
  await browser.page.setViewportSize({ width: 1440, height: 900 });
  await browser.shot("account-desktop");
  await light();
  await browser.shot("account-desktop-light");
});
