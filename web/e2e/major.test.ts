// What the page of major says before something is done, and what it says of a conversation that did not begin here: the
// values of an entity that a call would set, a question at the end of a phone, a fork, a rewind over commits of the lake,
// and what a model was told of an earlier conversation.

import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { Event } from "../src/api/types.gen.ts";
import { fill, worked } from "./filled.ts";
import { parts, phone, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { lookAt } from "./looks.ts";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  server = await startServer({ pace: "1ms", own: join(import.meta.dirname, "lake"), claude: "/nonexistent/claude" });
  browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
});
afterAll(async () => {
  const complaints = browser?.complaints;
  await browser?.close();
  await server?.stop();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const card = () => page().locator("main [data-interaction]").last();
const dialog = () => page().getByRole("dialog");
const begin = async (app: string) => {
  await page().setViewportSize({ width: 1440, height: 900 });
  await page().goto("about:blank");
  await page().goto(`${server.url}/apps/${app}/`);
};

const file = () => `${server.url}/v1/workspaces/file?${new URLSearchParams({ app: "major", workspace: "lake", path: "docs/support-hours.md" })}`;
const read = async () => (await (await fetch(file())).json()) as { text: string };

describe.runIf(!process.env["PARLEY_URL"])("the page of major", () => {
  test("shows what each value of an entity is and will be, and how its text changes", async () => {
    const values = card().locator("[data-front]");
    const said = async () => (await values.innerText()).replaceAll(/\s+/g, " ");
    await begin("clerk");
    await parts(page()).ask("review");
    await values.waitFor();
    await expect.poll(said).toBe("kind doc stays as it is owner Samir Haddad is removed reviewer Ana is new status now: active → then: draft tags now: docs support → then: support hours");
    const diff = card().getByRole("region", { name: "What changes in docs/support-hours.md" });
    expect(await diff.locator("[data-line=removed]").innerText()).toContain("07:00 to 19:00");
    expect(await diff.locator("[data-line=added]").innerText()).toContain("08:00 to 18:00");
    expect(await card().innerText()).toContain("The line opens later.");
    await lookAt(browser, "major-values", 900, [1440, 390]);

    // Somebody else changes it meanwhile: the card has what it is now.
    const entity = file().replace("workspaces/file", "entities/entity");
    const { body: text, version } = (await (await fetch(entity)).json()) as { body: string; version: string };
    const put = await fetch(entity, { method: "PUT", body: JSON.stringify({ body: text.replace("status: active", "status: closed"), version, reason: "It is closed" }), headers: { "Content-Type": "application/json" } });
    expect(put.status, await put.text()).toBe(200);
    await expect.poll(said).toContain("status now: closed → then: draft");

    await card().getByRole("button", { name: "Allow once" }).click();
    await parts(page()).done();
    expect((await read()).text).toMatch(/^---\ntitle: Support hours\nkind: doc\ncreated: .*\nupdated: .*\nstatus: draft\ntags: \[support, hours\]\nreviewer: Ana\n---\n[^]*08:00 to 18:00/);

    await parts(page()).ask("lost");
    await card().getByText("There is no such page, so the call will fail.").waitFor();
    await card().getByRole("button", { name: /^Deny/ }).click();
    await card().getByRole("button", { name: /^Deny/ }).click();
    await parts(page()).done();
  });

  test("at the end of a phone, the button for the end covers nothing of a question", async () => {
    await begin("major");
    await page().setViewportSize(phone);
    await parts(page()).ask("show port");
    const skip = card().getByRole("button", { name: "Skip" });
    await skip.waitFor();
    const box = page().getByRole("region", { name: "Conversation" });
    /** What a finger hits in the middle of Skip, with the list so far from its end; undefined: it is out of sight. */
    const hit = async (up: number) => {
      await box.evaluate((b, up) => b.scrollTo({ top: b.scrollHeight - b.clientHeight - up, behavior: "instant" }), up);
      await page().evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      return skip.evaluate((s) => {
        const { left, top, width, height } = s.getBoundingClientRect();
        const view = s.closest('[role="region"]')!.getBoundingClientRect();
        if (top + height > view.bottom) return undefined;
        return document.elementFromPoint(left + width / 2, top + height / 2)?.textContent;
      });
    };
    const hits = [];
    for (let up = 0; up <= 240; up += 20) hits.push(await hit(up));
    expect(new Set(hits.filter((h) => h !== undefined))).toEqual(new Set(["Skip"]));
    expect(hits.at(-1)).toBeUndefined(); // it was followed out of sight
    await skip.click();
    await parts(page()).done();
  });

  test("a fork says that it reads the files of another conversation, and a write that is refused says it, too", async () => {
    const p = parts(page());
    await begin("major");
    await p.ask("When is the support line answered?");
    await p.done();
    await page().getByRole("button", { name: "Fork from here" }).click();
    const line = page().locator("[data-forked]");
    await line.getByText("Files are read in this fork, and not changed.").waitFor();
    await p.ask("Set the status of the page on support hours to archived");
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    await p.last.getByText(/the session's workspace is read-only because it is a fork/).waitFor();
    await lookAt(browser, "major-fork", 900, [1440, 390]);
    await page().getByRole("button", { name: "Files read-only" }).click();
    await dialog().getByRole("heading", { name: "Files are read-only here" }).waitFor();
    await lookAt(browser, "major-fork-why", 900, [1440, 390]);
    await dialog().getByRole("link", { name: /When is the support line answered/ }).click();
    await expect.poll(() => p.answers.count()).toBe(1);
    expect(await dialog().count() + (await line.count()) + (await page().getByRole("button", { name: "Files read-only" }).count())).toBe(0);
  });

  test("going back over a commit of the lake says that it stays, and where the earlier text is", async () => {
    const p = parts(page());
    await begin("major");
    await p.ask("Set the status of the page on support hours to archived");
    await card().getByRole("button", { name: "Allow once" }).click();
    await p.done();
    await page().getByRole("button", { name: "Go back to before this message" }).focus();
    await page().keyboard.press("Enter");
    await dialog().getByText("The change is a commit in the lake, which stays; the page's history has what it contained before.").waitFor();
    expect(await dialog().getByRole("radio").count()).toBe(0); // no file would go back, so there is nothing to choose
    await lookAt(browser, "major-rewind", 900, [1440, 390]);
    await dialog().getByRole("button", { name: "Cancel" }).click();
  });

  test("shows what carries out its turns, from where on, and what cannot", async () => {
    const p = parts(page());
    const menu = page().getByRole("button", { name: /^Runtime: / });
    const at = async () => (await page().locator("article, [data-moved]").allInnerTexts()).map((t) => /^From here on, .*/.exec(t)?.[0] ?? "an answer");
    await begin("major");
    await p.ask("When is the support line answered?");
    await p.done();
    await menu.click();
    const claude = page().getByRole("menuitemradio", { name: /^Claude CLI/ });
    expect(await claude.innerText()).toContain("Not now: the Claude CLI is not installed.");
    expect(await claude.getAttribute("aria-disabled")).toBe("true");
    await lookAt(browser, "major-runtimes", 900, [1440]);
    await claude.click({ force: true }); // changes nothing
    await page().keyboard.press("Escape");
    expect(await menu.innerText()).toBe("Parley");

    // A client that chooses it all the same.
    const { sessions } = (await (await fetch(`${server.url}/v1/sessions?app=major`)).json()) as { sessions: { id: string }[] };
    await fetch(`${server.url}/v1/sessions/${sessions[0]!.id}`, { method: "PATCH", body: JSON.stringify({ runtime: "claude" }), headers: { "Content-Type": "application/json" } });
    await expect.poll(at).toEqual(["an answer", "From here on, the Claude CLI carries out the turns."]);
    await p.ask("Who is on call this week?");
    await p.last.getByRole("alert").getByText(/the Claude CLI/i).waitFor();
    await lookAt(browser, "major-moved", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await menu.click();
    await page().getByRole("menuitemradio", { name: /^Parley/ }).click();
    await p.ask("Who is on call this week?");
    await p.done();
    const all = ["an answer", "From here on, the Claude CLI carries out the turns.", "an answer", "From here on, Parley carries out the turns.", "an answer"];
    await expect.poll(at).toEqual(all);
    await page().reload();
    await expect.poll(at).toEqual(all);
  });

  test("says what a model was told of an earlier conversation", async () => {
    const history = [{ role: "user", content: "Where is the mast?" }, { role: "assistant", content: "In **Port Ellery**." }];
    const post = async (path: string, body: object) => (await (await fetch(`${server.url}/v1/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } })).json()) as { id: string };
    const made = await post("sessions", { app: "major", history });
    await post(`sessions/${made.id}/turns`, { message: "When is the support line answered?" });
    await begin(`major/#/${made.id}`);
    const told = page().locator("[data-told]");
    await parts(page()).done();
    await told.getByRole("button", { name: "This conversation continues an earlier one: 2 messages." }).click();
    await told.getByRole("region", { name: "The earlier conversation" }).getByText("In **Port Ellery**.").waitFor();
    await lookAt(browser, "major-continued", 900, [1440, 390]);

    const log = worked("major", [1]);
    const note = { kind: "restored", text: "The Claude CLI begins a conversation of its own, and is told of the one so far.", data: { told: "[user]\nWhere is the mast?\n[you]\nIn Port Ellery." } };
    const at = log.findIndex((e) => e.type === "model.started");
    const events = log.toSpliced(at, 0, { ...log[at]!, type: "runtime.noted", data: note } as Event).map((e, i) => ({ ...e, seq: i + 1 }));
    await begin(`major/#/${await fill(server.url, events)}`);
    await told.getByRole("button", { name: note.text }).click();
    await told.getByRole("region", { name: "What it was told" }).getByText("In Port Ellery.").waitFor();
    await lookAt(browser, "major-reminded", 900, [1440, 390]);
  });
});
