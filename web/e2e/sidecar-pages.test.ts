// The panel on pages of others: nothing of theirs gets in, nothing of it gets out, and it goes without a trace.

import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { phone, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { startPages } from "./sidecar/pages.ts";

let server: Server;
let pages: Awaited<ReturnType<typeof startPages>>;

const panel = (page: Page) => page.getByRole("dialog");
const opens = (page: Page) => page.getByRole("button", { name: /^Open / });
const wide = { width: 1200, height: 800 };

/** How each element of the panel is drawn: its place, and every property of its style. */
const drawn = (page: Page): Promise<string[]> =>
  page.evaluate(() =>
    [...(document.querySelector("parley-sidecar")?.shadowRoot?.querySelectorAll("dialog, dialog *") ?? [])].flatMap((e) => {
      const { x, y, width, height } = e.getBoundingClientRect();
      const style = getComputedStyle(e);
      const name = `${e.localName} ${e.getAttribute("class") ?? ""}`;
      return [`${name} at ${x} ${y}, ${width} by ${height}`, ...[...style].sort().map((p) => `${name} ${p}: ${style.getPropertyValue(p)}`)];
    }),
  );

async function opened(path: string, size = wide): Promise<Browser> {
  const b = await startBrowser(size, { reducedMotion: true });
  await b.page.goto(pages.url + path);
  await b.page.keyboard.press("Control+.");
  await panel(b.page).getByText("What can I do for you?").waitFor();
  return b;
}

describe.runIf(!process.env["PARLEY_URL"])("the sidecar on pages of others", () => {
  beforeAll(async () => {
    server = await startServer();
    pages = await startPages(server.url);
  });
  afterAll(async () => {
    await pages?.stop();
    await server?.stop();
  });

  test.each(["/hostile", "/csp", "/module"])("looks on %s as on a plain page", async (path) => {
    const plain = await opened("/plain");
    const want = await drawn(plain.page);
    expect(want.length).toBeGreaterThan(5000);
    await plain.close();
    const b = await opened(path);
    await b.shot(`sidecar-on${path.replace("/", "-")}`);
    const got = await drawn(b.page);
    expect(got.filter((line, i) => line !== want[i]).slice(0, 20)).toEqual([]);
    expect(got.length).toBe(want.length);
    await b.page.getByRole("button", { name: "Conversations" }).click(); // nothing lies over it
    await b.page.getByRole("heading", { name: "Conversations" }).waitFor();
    expect(b.complaints).toEqual([]);
    expect(await violations(b.page).then((all) => all.filter((v) => v.includes("parley-sidecar")))).toEqual([]);
    await b.close();
  });

  test("leaves a page as it is, and does not see what is typed there", async () => {
    const b = await startBrowser(wide, { reducedMotion: true });
    await b.page.goto(`${pages.url}/without`);
    const without = await b.page.screenshot();
    const globals = await b.page.evaluate(() => Object.keys(window).sort());
    await b.page.goto(`${pages.url}/plain`);
    await opens(b.page).waitFor();
    await b.page.evaluate(() => (window.ParleySidecar as import("../public/sidecar.d.ts").Sidecar).configure({ launcher: false }));
    await opens(b.page).waitFor({ state: "detached" });
    expect((await b.page.screenshot()).equals(without)).toBe(true);
    expect(await b.page.evaluate(() => Object.keys(window).sort())).toEqual(globals);
    await b.close();
  });

  test("keys that are typed into it are no shortcuts of the page", async () => {
    const b = await opened("/plain");
    const keys = () => b.page.evaluate(() => (window as unknown as { keys: number }).keys);
    const before = await keys();
    await b.page.keyboard.type("j k ?");
    expect(await panel(b.page).getByRole("textbox", { name: "Message" }).inputValue()).toBe("j k ?");
    expect(await keys()).toBe(before);
    await b.page.locator("#field").press("x");
    expect(await keys()).toBe(before + 1);
    await b.close();
  });

  test("opens and closes by its key, and gives the focus back", async () => {
    const b = await startBrowser(wide, { reducedMotion: true });
    const { page } = b;
    await page.goto(`${pages.url}/plain`);
    await opens(page).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.locator("#field").focus();
    const focused = () => page.evaluate(() => document.activeElement?.id || (document.activeElement as Element).shadowRoot?.activeElement?.getAttribute("aria-label"));
    for (const close of ["Escape", "Control+."]) {
      await page.keyboard.press("Control+.");
      await panel(page).waitFor();
      expect(await focused()).toBe("Message");
      await page.keyboard.press(close);
      await panel(page).waitFor({ state: "hidden" });
      expect(await focused()).toBe("field");
    }
    // Beside the page it is not modal: the page stays usable, and Tab leads out of the panel.
    await page.keyboard.press("Control+.");
    await page.locator("#before").click();
    expect(await focused()).toBe("before");
    await page.keyboard.press("Control+.");
    expect(await focused()).toBe("Message");
    for (let n = 0; n < 12 && !["before", "field"].includes(String(await focused())); n++) await page.keyboard.press("Tab");
    expect(["before", "field"]).toContain(await focused());
    // The button of the panel gets the focus back when nothing else had it.
    await page.keyboard.press("Control+.");
    await page.keyboard.press("Control+.");
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    expect(await page.evaluate(() => (window as unknown as { heard: string[] }).heard.filter((h) => h === "open" || h === "close").length)).toBeGreaterThan(4);
    await b.close();
  });

  test.each(["light", "dark"] as const)("covers a phone's page, which is out of reach meanwhile, in the %s", async (theme) => {
    const b = await startBrowser(phone, { touch: true, reducedMotion: true });
    const { page } = b;
    await page.goto(`${pages.url}/plain`);
    await page.evaluate((theme) => (window.ParleySidecar as import("../public/sidecar.d.ts").Sidecar).configure({ theme }), theme);
    await opens(page).tap();
    await panel(page).getByText("What can I do for you?").waitFor();
    const box = await panel(page).boundingBox();
    expect(box).toEqual({ x: 0, y: 0, width: phone.width, height: phone.height });
    expect(await violations(page)).toEqual([]);
    await b.shot(`sidecar-phone-${theme}`);
    const inside = () => page.evaluate(() => document.activeElement === null || document.activeElement === document.body || document.activeElement.localName === "parley-sidecar");
    for (let n = 0; n < 12; n++) {
      await page.keyboard.press("Tab");
      expect(await inside()).toBe(true);
    }
    // The window becomes wide: it is beside the page now, and what was typed is still there.
    await page.getByRole("textbox", { name: "Message" }).fill("half a sen");
    await page.setViewportSize(wide);
    await expect.poll(async () => (await panel(page).boundingBox())?.width).toBe(420);
    expect(await page.getByRole("textbox", { name: "Message" }).inputValue()).toBe("half a sen");
    await page.locator("#before").click();
    await page.setViewportSize(phone);
    await page.getByRole("button", { name: /^Close / }).tap();
    await opens(page).waitFor();
    await b.close();
  });

  test("goes with the direction and the colours of the page", async () => {
    const rtl = await opened("/rtl");
    expect((await panel(rtl.page).boundingBox())?.x).toBe(0);
    await rtl.shot("sidecar-rtl");
    expect(await violations(rtl.page)).toEqual([]);
    await rtl.close();
    const dark = await opened("/dark");
    expect(await panel(dark.page).evaluate((e) => getComputedStyle(e).backgroundColor)).toBe("rgb(23, 23, 26)");
    await dark.page.addStyleTag({ content: ":root { --parley-bg: rgb(1, 2, 3); --parley-width: 500px; }" });
    expect(await panel(dark.page).evaluate((e) => getComputedStyle(e).backgroundColor)).toBe("rgb(1, 2, 3)");
    expect((await panel(dark.page).boundingBox())?.width).toBe(500);
    await dark.close();
  });

  test("two tags make one panel", async () => {
    const b = await startBrowser(wide);
    const warned: string[] = [];
    b.page.on("console", (m) => void (m.type() === "warning" && warned.push(m.text())));
    await b.page.goto(`${pages.url}/two`);
    await opens(b.page).waitFor();
    expect(await b.page.locator("parley-sidecar").count()).toBe(1);
    expect(warned).toEqual([expect.stringContaining("has the sidecar already")]);
    await b.close();
  });

  test("works in a frame, and is in no other", async () => {
    const b = await startBrowser(wide, { reducedMotion: true });
    await b.page.goto(`${pages.url}/frame`);
    const frame = b.page.frameLocator("iframe");
    await frame.getByRole("button", { name: "Open Assistant" }).click();
    await frame.getByText("What can I do for you?").waitFor();
    expect(await b.page.locator("parley-sidecar").count()).toBe(0);
    await b.shot("sidecar-frame");
    await b.close();
  });

  test.each(["react", "vue"])("comes and goes with a component of %s", async (name) => {
    const b = await startBrowser(wide, { reducedMotion: true });
    const { page } = b;
    await page.goto(`${pages.url}/${name}`);
    const title = name === "react" ? "React's assistant" : "Vue's assistant";
    await page.getByRole("button", { name: `Open ${title}` }).waitFor();
    expect(await page.locator("parley-sidecar").count()).toBe(1);
    await page.keyboard.press("Control+.");
    await page.getByRole("textbox", { name: "Message" }).fill("half a sen");
    await page.getByRole("button", { name: "Other route with", exact: true }).click();
    await page.locator("h1", { hasText: "other" }).waitFor();
    expect(await page.locator("parley-sidecar").count()).toBe(1);
    await page.getByRole("button", { name: "Route without" }).click();
    await expect.poll(() => page.locator("parley-sidecar").count()).toBe(0);
    await page.keyboard.press("Control+.");
    expect(await page.locator("parley-sidecar").count()).toBe(0);
    await page.getByRole("button", { name: "Route with", exact: true }).click();
    await expect.poll(() => page.getByRole("textbox", { name: "Message" }).inputValue()).toBe("half a sen");
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test("comes back when the page replaces all that it has", async () => {
    const b = await opened("/plain");
    await b.page.evaluate(() => {
      document.querySelector("parley-sidecar")?.remove();
      document.body.replaceWith(document.createElement("body"));
    });
    await panel(b.page).getByText("What can I do for you?").waitFor();
    await b.close();
  });
});
