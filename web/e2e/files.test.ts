// The files of a workspace beside the chat, on the demo's vaults: the tree by the keys, notes and their links, every kind of
// file, an edit that is saved and one that is in conflict, and the choice of a person.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { phone, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { lookAt } from "./looks.ts";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server?.stop());
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const tree = () => page().getByRole("tree");
const row = (name: string) => tree().getByRole("treeitem", { name, exact: true });
const panel = () => page().locator("[data-file-panel]");
const content = (name: string) => page().getByRole("region", { name: `Content of ${name}` });

async function visit(width = 1440, height = 900): Promise<void> {
  browser = await startBrowser({ width, height }, { reducedMotion: true });
  await page().goto(`${server.url}/apps/notes/`);
  await page().getByRole("tab", { name: "Files" }).click();
  await row("Garden").waitFor();
}

const api = async (method: string, path: string, space: string, body?: unknown) => {
  const q = new URLSearchParams({ app: "notes", workspace: space, path });
  const response = await fetch(`${server.url}/v1/workspaces/file?${q}`, { method, ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }) });
  return (await response.json()) as { text?: string; version?: string };
};

describe.runIf(!process.env["PARLEY_URL"])("the files of a workspace", () => {
  test("are offered for download where the browser does not show PDFs in a page", async () => {
    await visit();
    await row("House").click();
    await row("heating-inspection.pdf").click();
    await panel().getByText("This browser does not show PDFs inside a page.").waitFor();
    const download = page().waitForEvent("download");
    await panel().getByRole("link", { name: "Download it" }).click();
    expect((await download).suggestedFilename()).toBe("heating-inspection.pdf");
    await lookAt(browser, "files-pdf", 900, [1440, 390]);
  });

  test("say which notes link to a note, and open them", async () => {
    const text = "- ask [[Bees|the bees]] about it\n";
    await api("PUT", "Garden/Links.md", "shared/petra", { text });
    await visit();
    await row("Garden").focus();
    await page().keyboard.press("ArrowRight");
    await row("Bees.md").click();
    const links = panel().getByRole("region", { name: "Notes that link here" });
    const fold = links.getByRole("button", { name: "Notes that link here" });
    expect(await fold.getAttribute("aria-expanded")).toBe("false");
    await fold.click();
    const one = links.getByRole("button", { name: /Links/ }).filter({ hasText: "ask the bees about it" });
    await one.waitFor();
    await one.scrollIntoViewIfNeeded();
    await lookAt(browser, "files-backlinks", 900, [1440, 390]);
    await one.click();
    await content("Links.md").waitFor();
    await links.getByText("No note links here.").waitFor();
  });

  test("are a tree to walk through with the keys", async () => {
    await visit();
    await row("Garden").focus();
    await page().keyboard.press("ArrowRight");
    await row("Bees.md").waitFor();
    expect(await row("Garden").getAttribute("aria-expanded")).toBe("true");
    await page().keyboard.press("ArrowRight");
    await expect.poll(() => tree().locator(":focus").getAttribute("aria-level")).toBe("2");
    await page().keyboard.type("slu");
    await expect.poll(() => tree().locator(":focus").getAttribute("data-path")).toBe("Garden/Slugs.md");
    await page().keyboard.press("Enter");
    await content("Slugs.md").waitFor();
    await row("Slugs.md").focus();
    await page().keyboard.press("ArrowLeft");
    await expect.poll(() => tree().locator(":focus").getAttribute("data-path")).toBe("Garden");
    await page().keyboard.press("ArrowLeft");
    await expect.poll(() => row("Garden").getAttribute("aria-expanded")).toBe("false");
    expect(await tree().locator('[tabindex="0"]').count(), "one stop for the Tab key").toBe(1);
    await page().getByRole("searchbox", { name: "Find a file by its name" }).fill("lentil");
    await page().getByText("1 file", { exact: true }).waitFor();
    await page().keyboard.press("Enter");
    await content("Lentil soup.md").waitFor();
    await lookAt(browser, "files-recipe", 900, [1440]);
  });

  test("has notes with properties and links, which lead on and back", async () => {
    await visit();
    await row("Garden").click();
    await row("Plan for the year.md").click();
    await content("Plan for the year.md").getByRole("heading").first().waitFor();
    await lookAt(browser, "files-note", 900, [1440, 1024, 768]);
    await page().setViewportSize({ width: 1440, height: 900 });
    const link = content("Plan for the year.md").getByRole("link").first();
    const words = await link.innerText();
    await link.focus();
    await page().keyboard.press("Enter");
    await expect.poll(() => panel().getByRole("heading", { level: 2 }).innerText()).not.toContain("Plan for the year");
    expect(words).not.toBe("");
    await panel().getByRole("button", { name: "Back to the file before" }).click();
    await content("Plan for the year.md").waitFor();
    await panel().getByRole("button", { name: "Source" }).click();
    await panel().locator(".cm-content").waitFor();
    await lookAt(browser, "files-source", 900, [1440]);
  });

  test("has files of every kind, and nothing in them runs", async () => {
    await visit();
    await api("PUT", "Odd/page.html", "shared/petra", { text: "<h1>Hi</h1><script>window.ran = 1</script><img src=x onerror=\"window.ran = 2\">\n" });
    await api("PUT", "Odd/drawing.svg", "shared/petra", { text: '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="40" onload="window.ran = 3"><script>window.ran = 4</script><rect width="80" height="40" fill="green"/></svg>' });
    await api("PUT", "Odd/evil.md", "shared/petra", { text: `---\na: [1\n---\n# Odd\n\n<script>window.ran = 5</script><img src=x onerror="window.ran = 6">\n\n[x](javascript:window.ran=7) ![p](https://example.com/x.png) [[../../etc/passwd]]\n\n${"> ".repeat(5000)}deep\n` });
    await api("PUT", "Odd/long.txt", "shared/petra", { text: Array.from({ length: 120_000 }, (_, i) => `line ${i + 1} of a long file`).join("\n") });
    await page().getByRole("button", { name: "Read the files again" }).click();
    const open = async (folder: string, name: string) => {
      if ((await row(folder).getAttribute("aria-expanded")) !== "true") await row(folder).click();
      await row(name).click();
      await expect.poll(() => panel().getByRole("heading", { level: 2 }).innerText()).toContain(name);
    };
    await open("House", "electricity.csv");
    await content("electricity.csv").getByRole("table").waitFor();
    await lookAt(browser, "files-table", 900, [1440]);
    await open("Garden", "rainfall.ipynb");
    await content("rainfall.ipynb").getByRole("region", { name: "Source of cell 2" }).waitFor();
    await lookAt(browser, "files-notebook", 900, [1440]);
    await open("Odd", "page.html");
    await panel().locator(".cm-content").getByText("window.ran = 1").waitFor();
    await open("Odd", "drawing.svg");
    await expect.poll(() => content("drawing.svg").getByRole("img").evaluate((e) => (e as HTMLImageElement).naturalWidth)).toBe(80);
    await open("Odd", "evil.md");
    await content("evil.md").getByText("The properties cannot be read").waitFor();
    await content("evil.md").getByText("deep").waitFor();
    expect(await content("evil.md").locator("img, script").count()).toBe(0);
    expect(await violations(page())).toEqual([]);
    await open("Odd", "long.txt");
    await panel().getByText(/Lines 1 to [\d,]+ of 120,000 are shown/).waitFor();
    expect(await panel().locator(".cm-line").count(), "only what is in view is drawn").toBeLessThan(300);
    expect(await panel().getByRole("button", { name: "Edit" }).count(), "a part is not edited").toBe(0);
    await panel().getByRole("button", { name: "Show more" }).click();
    await expect.poll(() => panel().getByText(/are shown/).innerText()).not.toContain("Lines 1 to 45");
    expect(await page().evaluate(() => (window as { ran?: number }).ran)).toBeUndefined();
  });

  test("has an editor that saves what was read, and shows a conflict in which nothing is lost", async () => {
    await visit();
    await row("Shopping list.md").click();
    await panel().getByRole("button", { name: "Edit" }).click();
    const text = panel().getByRole("textbox", { name: "Text of Shopping list.md" });
    await text.click();
    await page().keyboard.press("Control+Home");
    await page().keyboard.type("Twine for the trellis\n");
    await lookAt(browser, "files-edit", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await text.click();
    await page().keyboard.press("Control+s");
    await panel().getByText("Saved", { exact: true }).waitFor();
    const saved = await api("GET", "Shopping list.md", "shared/petra");
    expect(saved.text?.startsWith("Twine for the trellis\n")).toBe(true);

    await page().keyboard.press("Control+Home");
    await page().keyboard.type("Mine\n");
    await api("PUT", "Shopping list.md", "shared/petra", { text: `${saved.text}Theirs\n`, version: saved.version });
    await page().keyboard.press("Control+s");
    const conflict = panel().getByRole("alert", { name: "Conflict" });
    await conflict.getByText("Somebody else has changed this file").waitFor();
    expect((await api("GET", "Shopping list.md", "shared/petra")).text, "theirs is still there").toContain("Theirs");
    expect(await text.innerText(), "and mine is, too").toContain("Mine");
    await lookAt(browser, "files-conflict", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await conflict.getByRole("button", { name: "Put both together" }).click();
    await panel().getByRole("button", { name: "Save", exact: true }).click();
    await panel().getByText("Saved", { exact: true }).waitFor();
    expect((await api("GET", "Shopping list.md", "shared/petra")).text).toBe(`Mine\n${saved.text}Theirs\n`);
    await panel().getByRole("button", { name: "Done" }).click();
    await content("Shopping list.md").getByText("Theirs").waitFor();
  });

  test("show what an agent changes at once, from its answer too, and their history", async () => {
    await visit();
    await row("Shopping list.md").click();
    await content("Shopping list.md").waitFor();
    await page().getByRole("textbox", { name: "Message" }).fill("Add milk to the shopping list.");
    await page().keyboard.press("Enter");
    await content("Shopping list.md").getByText("Milk", { exact: true }).waitFor();
    const changed = page().getByRole("region", { name: "Changed files" });
    await changed.getByText("1 file changed").waitFor();
    expect(await changed.getByRole("button", { name: /^1 file changed/ }).innerText(), "a line that stays is not a change").not.toMatch(/removed/);
    await panel().getByRole("button", { name: "Close the file" }).click();
    await changed.getByRole("button", { name: "Open Shopping list.md" }).click();
    await content("Shopping list.md").waitFor();
    await panel().getByRole("button", { name: "Actions for Shopping list.md" }).click();
    await page().getByRole("menuitem", { name: "History" }).click();
    const dialog = page().getByRole("dialog", { name: "History of Shopping list.md" });
    await dialog.getByRole("list", { name: "Versions, the newest first" }).getByRole("button").first().waitFor();
    await dialog.getByRole("button", { name: "Put it into the editor" }).or(dialog.getByText("The file has not changed since.")).first().waitFor();
    await lookAt(browser, "files-history", 900, [1440, 1200]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await dialog.getByRole("list", { name: "Versions, the newest first" }).getByRole("button").last().click();
    await dialog.getByRole("button", { name: "Put it into the editor" }).click();
    await panel().getByRole("textbox", { name: "Text of Shopping list.md" }).waitFor();
    expect(await panel().getByRole("textbox", { name: "Text of Shopping list.md" }).innerText()).not.toMatch(/^- \[ \] Milk$/m);
  });

  test("are a person's: another has other files and other conversations", async () => {
    await visit();
    await page().getByRole("button", { name: /^Person: petra/ }).click();
    await page().getByRole("menuitemradio", { name: "sebastian" }).click();
    await page().getByRole("button", { name: /^Person: sebastian/ }).waitFor();
    await expect.poll(() => row("Garden").count()).toBe(0);
    await page().getByRole("textbox", { name: "Message" }).fill("Hello from Sebastian");
    await page().keyboard.press("Enter");
    await page().getByRole("tab", { name: "Chats" }).click();
    await expect.poll(() => page().locator("[data-session]").count()).toBe(1);
    const { sessions } = (await (await fetch(`${server.url}/v1/sessions?app=notes`)).json()) as { sessions: { workspace?: string }[] };
    expect(sessions[0]?.workspace).toBe("shared/sebastian");
    await page().getByRole("button", { name: /^Person: sebastian/ }).click();
    await page().getByRole("menuitemradio", { name: "petra" }).click();
    await expect.poll(() => page().locator("[data-session]").filter({ hasText: "Hello from Sebastian" }).count()).toBe(0);
    await lookAt(browser, "files-person", 900, [1440, 390]);
  });

  test("open over the chat on a phone", async () => {
    browser = await startBrowser(phone, { touch: true, reducedMotion: true });
    await page().goto(`${server.url}/apps/notes/`);
    await page().getByRole("button", { name: "Conversations" }).click();
    await page().getByRole("tab", { name: "Files" }).click();
    await row("Recipes").click();
    await row("Apple cake.md").waitFor();
    await lookAt(browser, "files-tree", 844, [390]);
    await row("Apple cake.md").click();
    await page().getByRole("dialog").getByRole("region", { name: "Content of Apple cake.md" }).waitFor();
    await lookAt(browser, "files-phone", 844, [390]);
    expect(await page().evaluate(() => document.activeElement?.closest("dialog") !== null), "the focus is in it").toBe(true);
    await page().getByRole("button", { name: "Actions for Apple cake.md" }).click();
    await page().getByRole("menuitem", { name: "Rename or move" }).click();
    await page().getByRole("dialog", { name: "Rename or move" }).waitFor();
    await page().keyboard.press("Escape");
    await page().getByRole("dialog", { name: "Rename or move" }).waitFor({ state: "detached" });
    await content("Apple cake.md").waitFor();
    await page().keyboard.press("Escape");
    await expect.poll(() => page().getByRole("dialog").count()).toBe(0);
  });
});
