// The lake beside the chat, on the demo's: found by words and facets, drawn as a graph, attached to a conversation, and
// tidied up by the findings of a proposal.

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { lookAt } from "./looks.ts";

let data: string;
let server: Server;
let browser: Browser;

beforeAll(async () => {
  data = temporary();
  server = await startServer({ data });
  browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
  await page().goto(`${server.url}/apps/major/`);
  await page().getByRole("tab", { name: "Lake" }).click();
});
afterAll(async () => {
  const complaints = browser?.complaints;
  await browser?.close();
  await server?.stop();
  rmSync(data, { recursive: true, force: true });
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const entities = () => page().getByRole("tabpanel").getByRole("list", { name: "Entities" });
const panel = () => page().locator("[data-file-panel]");
const dialog = () => page().getByRole("dialog");

/** The text of a file, as the server has it; undefined: there is none. */
async function text(path: string): Promise<string | undefined> {
  const q = new URLSearchParams({ app: "major", workspace: "lake", path });
  const response = await fetch(`${server.url}/v1/workspaces/file?${q}`);
  return response.status === 404 ? undefined : ((await response.json()) as { text: string }).text;
}

describe.runIf(!process.env["PARLEY_URL"])("the lake", () => {
  test("is found by words and facets, and an entity opens", async () => {
    await page().getByText(/^2\d\d entities$/).waitFor();
    expect(await violations(page())).toEqual([]);
    await page().getByRole("searchbox", { name: "Search the lake" }).fill("installation mast");
    await entities().getByRole("button", { name: /Installation guide/ }).waitFor();
    await page().getByRole("combobox", { name: "Kind" }).selectOption("doc");
    await expect.poll(() => entities().getByRole("button").filter({ hasNotText: "doc ·" }).count()).toBe(0);
    await entities().getByRole("button", { name: /Installation guide/ }).click();
    await panel().getByRole("heading", { name: /installation-guide\.md/ }).waitFor();
  });

  test("its faults are shown with their lines, and its properties lead to all that have them", async () => {
    const faults = panel().getByRole("region", { name: "What is wrong in it" });
    await faults.getByText(/^Line 16:/).waitFor();
    await lookAt(browser, "lake-entity", 900, [1440]);
    await panel().getByRole("button", { name: "Marek Dvořák" }).click();
    await expect.poll(() => page().getByRole("combobox", { name: "Owner" }).inputValue()).toBe("Marek Dvořák");
    expect(await page().getByRole("searchbox", { name: "Search the lake" }).inputValue()).toBe("");
    await expect.poll(() => entities().getByRole("button").filter({ hasNotText: "Marek Dvořák" }).count()).toBe(0);
    await page().getByRole("button", { name: "Show all" }).click();
    await page().getByText(/^2\d\d entities$/).waitFor();
  });

  test("what others change is seen without reading it again: in the list, in the choices, and in the open entity", async () => {
    const path = "a-calm-harbour.md";
    const send = async (method: string, at: string, body: object) => {
      const q = new URLSearchParams({ app: "major", workspace: "lake", ...(at !== "" && { path }) });
      const response = await fetch(`${server.url}/v1/entities${at}?${q}`, { method, body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
      expect(response.status, await response.clone().text()).toBeLessThan(300);
      return (await response.json()) as { version: string };
    };
    const front = "---\nkind: doc\ntitle: A calm harbour\nstatus: draft\nowner: Ben Okafor\n---\n";
    const size = async () => Number(/\d+/.exec(await page().getByRole("tabpanel").getByRole("status").innerText())?.[0]);
    const before = await size();
    const { version } = await send("POST", "", { path, body: `${front}\nThe first text.\n`, reason: "Others work, too." });
    await entities().getByRole("button", { name: /^A calm harbour/ }).click();
    await expect.poll(size).toBe(before + 1);
    await panel().getByText("The first text.").waitFor();
    await send("PUT", "/entity", { body: `${front.replace("A calm", "An open")}\nThe second text.\n`, version, reason: "It is open." });
    await panel().getByText("The second text.").waitFor();
    await entities().getByRole("button", { name: /^An open harbour/ }).waitFor();
    await page().getByRole("searchbox", { name: "Search the lake" }).fill("installation mast");
    await entities().getByRole("button", { name: /^Installation guide/ }).click();
    await panel().getByRole("heading", { name: /installation-guide\.md/ }).waitFor();
    await page().getByRole("button", { name: "Show all" }).click();
  });

  test("an entity is attached to a new conversation, whose prompts have it", async () => {
    await panel().getByRole("button", { name: "Actions for installation-guide.md" }).click();
    await page().getByRole("menuitem", { name: "Attach to this conversation" }).click();
    const chips = page().getByRole("list", { name: "Attached to this conversation" });
    await chips.getByRole("button", { name: "Installation guide", exact: true }).waitFor();
    await page().getByRole("textbox", { name: /message/i }).fill("Which contracts end soon?");
    await page().keyboard.press("Enter");
    await expect.poll(async () => {
      const list = (await (await fetch(`${server.url}/v1/sessions?app=major`)).json()) as { sessions: { preview?: string; attached_entities?: { path: string }[] }[] };
      return list.sessions.find((s) => s.preview?.startsWith("Which contracts"))?.attached_entities?.map((e) => e.path);
    }).toEqual(["docs/installation-guide.md"]);
    await chips.getByRole("button", { name: "Installation guide", exact: true }).waitFor();
    expect(await violations(page())).toEqual([]);
    await chips.getByRole("button", { name: "Detach Installation guide" }).click();
    await expect.poll(() => chips.count()).toBe(0);
  });

  test("its links are a drawing and a list, which leads to an entity", async () => {
    await page().getByRole("button", { name: "Show the links as a graph" }).click();
    const list = dialog().getByRole("complementary", { name: "Entities" });
    await list.getByText("Installation guide").first().waitFor();
    await list.getByRole("button", { name: "Show all" }).click();
    await list.getByRole("button", { name: /^Index/ }).waitFor();
    expect(await violations(page())).toEqual([]);
    await list.getByRole("button", { name: /Port Ellery/ }).first().click();
    await dialog().getByRole("combobox").selectOption({ label: "1 link" });
    await expect.poll(async () => Number(/(\d+) entities/.exec((await dialog().getByRole("heading", { level: 2 }).innerText()) ?? "")?.[1])).toBeLessThan(40);
    await lookAt(browser, "lake-graph", 900, [1440]);
    await list.getByRole("button", { name: "Open", exact: true }).click();
    await panel().getByRole("heading", { name: /port-ellery\.md/ }).waitFor();
  });

  test("a proposal is reviewed: one finding is applied, one is left alone, and one was changed meanwhile", async () => {
    await page().getByRole("button", { name: /1 proposal waits/ }).click();
    const found = (path: string) => dialog().getByRole("listitem").filter({ hasText: path }).filter({ has: page().getByText("Its change") });
    const radome = found("lake/glossary/radome.md").first();
    await radome.waitFor();
    await dialog().getByText("11 of 11 open.").waitFor();
    expect(await violations(page())).toEqual([]);
    await lookAt(browser, "lake-proposal", 900, [1440]);

    expect(await text("lake/glossary/radome.md")).not.toMatch(/owner: Ben Okafor\n---/);
    await radome.getByRole("button", { name: "Apply" }).click();
    await dialog().getByText("1 is applied, each as a commit in your name.").waitFor();
    expect(await text("lake/glossary/radome.md")).toMatch(/owner: Ben Okafor\n---/);
    await radome.getByText(/^Applied, as commit [0-9a-f]{10}\.$/).waitFor();

    await found("lake/glossary/wind-setup.md").first().getByRole("button", { name: "Leave" }).click();
    await dialog().getByText("1 stays as it is, and will not be proposed again.").waitFor();
    expect(await text("lake/glossary/wind-setup.md")).toBeDefined();

    const path = "docs/publications.md";
    const q = new URLSearchParams({ app: "major", workspace: "lake", path });
    const { version, text: before } = (await (await fetch(`${server.url}/v1/workspaces/file?${q}`)).json()) as { version: string; text: string };
    await fetch(`${server.url}/v1/workspaces/file?${q}`, { method: "PUT", body: JSON.stringify({ text: `${before}\nMore.\n`, version }), headers: { "Content-Type": "application/json" } });
    await found(path).first().getByRole("checkbox").check();
    await dialog().getByRole("button", { name: "Apply the chosen 1" }).click();
    await dialog().getByText("1 could not be applied, because its page was changed since.").waitFor();
    await dialog().getByRole("listitem").filter({ hasText: path }).getByText(/cannot be applied any more/).first().waitFor(); // its change is not shown any more
    expect(await text(path)).toBe(`${before}\nMore.\n`);

    await dialog().getByRole("button", { name: "Leave the rest" }).click();
    await page().getByRole("dialog", { name: /^Leave all 8/ }).getByRole("button", { name: "Leave" }).click();
    await dialog().getByText("8 stay as they are").waitFor();
    await dialog().getByRole("button", { name: "Close" }).click();
    await page().getByRole("button", { name: "1 earlier proposal" }).waitFor();
  });

  test("an entity is edited, what others have saved meanwhile is shown, and so are its history and what links to it", async () => {
    const both = [1440, phone.width];
    const wide = () => page().setViewportSize({ width: 1440, height: 900 });
    await page().getByRole("searchbox", { name: "Search the lake" }).fill("support hours");
    await entities().getByRole("button", { name: /^Support hours/ }).click();
    await panel().getByRole("heading", { name: /support-hours\.md/ }).waitFor();
    await panel().getByRole("button", { name: "Edit", exact: true }).click();
    await panel().getByRole("textbox", { name: "Text of support-hours.md" }).click();
    await page().keyboard.press("Control+End");
    await page().keyboard.type("\nThe line has a waiting tune.\n");
    const q = new URLSearchParams({ app: "major", workspace: "lake", path: "docs/support-hours.md" });
    const at = `${server.url}/v1/entities/entity?${q}`;
    const { body, version } = (await (await fetch(at)).json()) as { body: string; version: string };
    const put = await fetch(at, { method: "PUT", body: JSON.stringify({ body: body.replace("07:00", "08:00") + "\nNo calls on Sundays.\n", version, reason: "The line opens later" }), headers: { "Content-Type": "application/json" } });
    expect(put.status, await put.text()).toBe(200);
    await panel().getByRole("button", { name: "Save", exact: true }).click();
    const conflict = panel().getByRole("alert", { name: "Conflict" });
    await conflict.getByText(/^Somebody else has changed this file/).waitFor();
    await lookAt(browser, "lake-conflict", 900, both);
    await wide();
    await conflict.getByRole("button", { name: "Put both together" }).click();
    await panel().getByRole("button", { name: "Save", exact: true }).click();
    await panel().getByText("Saved", { exact: true }).waitFor();
    await panel().getByRole("button", { name: "Done" }).click();
    expect(await text("docs/support-hours.md")).toMatch(/08:00[^]*waiting tune/);

    const links = panel().getByRole("region", { name: "Notes that link here" });
    await links.scrollIntoViewIfNeeded();
    await links.getByRole("button").or(links.getByRole("link")).first().waitFor();
    await lookAt(browser, "lake-backlinks", 900, both);
    await wide();
    await panel().getByRole("button", { name: "Actions for support-hours.md" }).click();
    await page().getByRole("menuitem", { name: "History" }).click();
    await dialog().getByRole("list", { name: "Versions, the newest first" }).getByText("The line opens later").waitFor();
    await lookAt(browser, "lake-history", 900, [1440]); // in a narrower window the file is another element, without its dialog
    await dialog().getByRole("button", { name: "Close" }).click();
    await page().getByRole("button", { name: "Close the file" }).click();
    await page().getByRole("button", { name: "Show all" }).click();
  });

  test("of many proposals the older ones are read on request, and each is decided by itself", async () => {
    // As many nights of the agent: branches like its own. What the first one found is decided by now, or was changed since.
    const git = (args: readonly string[], input?: Buffer) => execFileSync("git", ["-C", join(data, "workspaces/local/lake"), ...args], { ...(input && { input }), maxBuffer: 1 << 26, stdio: ["pipe", "pipe", "ignore"] });
    const night = git(["fast-export", "main..tachikoma/0-first-night"]).toString("latin1");
    const nights = 60;
    for (let n = 1; n < nights; n++) git(["fast-import", "--quiet"], Buffer.from(night.replaceAll("0-first-night", `0-night-${String(n).padStart(5, "0")}`), "latin1"));
    await page().reload();
    await page().getByRole("tab", { name: "Lake" }).click();
    await page().getByRole("button", { name: /^50 or more proposals wait/ }).click();
    const choice = dialog().getByRole("combobox", { name: "Proposal" });
    const more = dialog().getByRole("button", { name: "Show older" });
    await more.waitFor();
    expect(await choice.locator("option").count()).toBe(50);
    await lookAt(browser, "lake-proposals", 900, [1440, phone.width]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await more.click();
    await expect.poll(() => choice.locator("option").count()).toBe(nights);
    await expect.poll(() => more.count()).toBe(0);

    // An older one, of which some is decided and some cannot be applied any more.
    await choice.selectOption("0-night-00005");
    const found = (path: string) => dialog().getByRole("listitem").filter({ hasText: path });
    await found("docs/publications.md").getByText(/cannot be applied any more/).first().waitFor();
    await found("-phone-list.md").getByRole("checkbox").first().check();
    await found("docs/backups.md").getByRole("checkbox").first().check();
    await lookAt(browser, "lake-proposals-older", 900, [1440, phone.width]);
    await page().setViewportSize({ width: 1440, height: 900 });
    const before = git(["rev-parse", "main"]).toString().trim();
    await dialog().getByRole("button", { name: "Apply the chosen 2" }).click();
    await dialog().getByText("2 are applied, each as a commit in your name.").waitFor();
    expect(git(["log", "--format=%an", `${before}..main`]).toString()).toBe("local\nlocal\n");
    expect(await choice.locator("option").count()).toBe(nights);
    await choice.selectOption("0-night-00004"); // what was applied from another one is not offered again
    await found("docs/backups.md").getByText(/cannot be applied any more|Applied/).first().waitFor();
    await dialog().getByRole("button", { name: "Close" }).click();
    for (let n = 1; n < nights; n++) git(["branch", "-D", `tachikoma/0-night-${String(n).padStart(5, "0")}`]);
  });

  test("is usable on a phone", async () => {
    await lookAt(browser, "lake-list", 900, [1440]);
    await page().setViewportSize(phone);
    await page().reload();
    await page().getByRole("button", { name: /conversations|menu|list/i }).first().click();
    await page().getByRole("tab", { name: "Lake" }).click();
    await entities().getByRole("button").first().waitFor();
    expect(await violations(page())).toEqual([]);
    expect(await page().evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(phone.width);
    await page().getByRole("button", { name: "1 earlier proposal" }).click();
    await dialog().getByText("Everything is decided.").waitFor();
    await lookAt(browser, "lake-proposal", phone.height, [phone.width]);
    await dialog().getByRole("button", { name: "Close" }).click();
    await page().getByRole("button", { name: "Show the links as a graph" }).click();
    await dialog().getByRole("button", { name: /^Index/ }).waitFor();
    await lookAt(browser, "lake-graph", phone.height, [phone.width]);
    await dialog().getByRole("button", { name: "Close" }).click();
    await page().getByRole("searchbox", { name: "Search the lake" }).fill("installation mast");
    await entities().getByRole("button", { name: /Installation guide/ }).click();
    await panel().getByRole("heading", { name: /installation-guide\.md/ }).waitFor();
    await panel().getByRole("button", { name: "Marek Dvořák" }).click();
    await expect.poll(() => page().getByRole("combobox", { name: "Owner" }).inputValue()).toBe("Marek Dvořák"); // the list is shown over the chat
  });
});
