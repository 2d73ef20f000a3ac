// Going back to before a message: what it would do is shown before it does, and it can be undone.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import type { RewindResult } from "../src/api/types.gen.ts";
import { parts, startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { lookAt } from "./looks.ts";

let server: Server;
let browser: Browser;

beforeAll(async () => {
  server = await startServer({ pace: "1ms" });
});
afterAll(() => server?.stop());
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;
const back = () => page().getByRole("button", { name: "Go back to before this message" });
const dialog = () => page().getByRole("dialog");

/** The text of a note of whoever has it; "" if nobody has. */
async function text(name: string): Promise<string> {
  for (const workspace of ["shared/petra", "shared/sebastian"]) {
    const q = new URLSearchParams({ app: "notes", workspace, path: name });
    const response = await fetch(`${server.url}/v1/workspaces/file?${q}`);
    if (response.ok) return ((await response.json()) as { text?: string }).text ?? "";
  }
  return "";
}

async function talk(): Promise<void> {
  browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
  const p = parts(page());
  await page().goto(`${server.url}/apps/notes/`);
  await p.ask("What is on my shopping list?");
  await p.done();
  await p.ask("Which of my notes mention Amira?");
  await expect.poll(() => p.answers.count()).toBe(2);
  await p.done();
}

describe.runIf(!process.env["PARLEY_URL"])("a conversation", () => {
  test("goes back to before a message, which is in the box again, and forth", async () => {
    await talk();
    const p = parts(page());
    await p.last.hover();
    await back().last().focus();
    await page().keyboard.press("Enter");
    await dialog().getByRole("heading", { name: "1 message is taken back" }).waitFor();
    expect(await p.answers.count(), "nothing is done yet").toBe(2);
    await dialog().getByRole("button", { name: "Go back" }).click();
    await expect.poll(() => p.answers.count()).toBe(1);
    await expect.poll(() => p.input.inputValue()).toBe("Which of my notes mention Amira?");
    await page().getByText("You went back.").waitFor();
    await lookAt(browser, "rewound", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await page().reload();
    await page().getByText("You went back.").waitFor();
    expect(await p.answers.count(), "also after a reload").toBe(1);
    await page().getByRole("button", { name: "Undo" }).click();
    await dialog().getByRole("heading", { name: "1 message comes back" }).waitFor();
    await dialog().getByRole("button", { name: "Undo it" }).click();
    await expect.poll(() => p.answers.count()).toBe(2);
    expect(await page().getByText("You went back.").count()).toBe(0);

    await back().first().focus();
    await page().keyboard.press("Enter");
    await dialog().getByRole("heading", { name: "2 messages are taken back" }).waitFor();
    await dialog().getByRole("button", { name: "Go back" }).click();
    await expect.poll(() => p.answers.count()).toBe(0);
    await page().getByRole("button", { name: "Undo" }).waitFor();
  });

  test("can be brought back later, too, where it went back", async () => {
    await talk();
    const p = parts(page());
    await back().last().focus();
    await page().keyboard.press("Enter");
    await dialog().getByRole("button", { name: "Go back" }).click();
    await expect.poll(() => p.answers.count()).toBe(1);
    await p.input.fill("");
    await p.ask("What is in my inbox?");
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    const line = page().locator("[data-rewound]");
    expect(await line.count()).toBe(1);
    await page().reload();
    await line.waitFor();
    await expect.poll(() => p.answers.count()).toBe(2);
    await lookAt(browser, "rewound-later", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await line.getByRole("button", { name: "Undo going back" }).click();
    await dialog().getByRole("heading", { name: "1 message is taken back" }).waitFor();
    await dialog().getByText("What is in my inbox?").waitFor();
    await dialog().getByRole("heading", { name: "1 message comes back" }).waitFor();
    await dialog().getByText("Which of my notes mention Amira?").waitFor();
    await dialog().getByRole("button", { name: "Undo it" }).click();
    await expect.poll(() => page().getByText("Which of my notes mention Amira?").count()).toBeGreaterThan(0);
    await expect.poll(() => page().getByText("What is in my inbox?").count()).toBe(0);
    expect(await line.count()).toBe(0);
  });

  test("is forked from an answer, and goes on without the original, which stays as it is", async () => {
    await talk();
    const p = parts(page());
    const original = new URL(page().url()).hash;
    const listed = await p.sessions.count(); // other tests had theirs
    const fork = page().getByRole("button", { name: "Fork from here" });
    expect(await fork.count(), "each answer has one").toBe(2);
    await p.answers.first().hover();
    await lookAt(browser, "fork", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    await fork.first().focus();
    await page().keyboard.press("Enter");
    await expect.poll(() => p.answers.count()).toBe(1);
    await p.last.getByText("What is on my shopping list?").waitFor();
    expect(new URL(page().url()).hash).not.toBe(original);
    await p.ask("What is in my inbox?");
    await expect.poll(() => p.answers.count()).toBe(2);
    await p.done();
    await page().reload();
    await p.last.getByText("What is in my inbox?").waitFor();
    await expect.poll(() => p.sessions.count()).toBe(listed + 1);
    await page().goto(`${server.url}/apps/notes/${original}`);
    await p.last.getByText("Which of my notes mention Amira?").waitFor();
    expect(await p.answers.count()).toBe(2);

    // The whole conversation, from the list.
    await page().locator("[data-active]").getByRole("button", { name: /^Actions for/ }).click();
    await page().getByRole("menuitem", { name: "Fork" }).click();
    await expect.poll(() => p.sessions.count()).toBe(listed + 2);
    await p.last.getByText("Which of my notes mention Amira?").waitFor();
    expect(new URL(page().url()).hash).not.toBe(original);
  });

  test("restores the files that the server has", async () => {
    browser = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true });
    const p = parts(page());
    await page().goto(`${server.url}/apps/notes/`);
    await p.ask("Create a note called Rewind test: the first line");
    await p.done();
    await expect.poll(() => text("Rewind test.md")).toContain("the first line");
    await p.done();
    const first = await text("Rewind test.md");
    await p.ask("Add the second line to Rewind test");
    await expect.poll(() => text("Rewind test.md")).toContain("Second line");
    await p.done();
    const second = await text("Rewind test.md");
    await back().last().focus();
    await page().keyboard.press("Enter");
    await dialog().getByRole("heading", { name: "1 file is restored" }).waitFor();
    await dialog().getByRole("radio", { name: /^Only the files/ }).click();
    await dialog().getByRole("heading", { name: "1 file is restored" }).waitFor();
    await lookAt(browser, "rewind-files", 900, [1440, 390]);
    await page().setViewportSize({ width: 1440, height: 900 });
    expect(await text("Rewind test.md"), "nothing is done yet").toBe(second);
    await dialog().getByRole("button", { name: "Go back" }).click();
    await page().getByText("Files were taken back: 1 file restored.").waitFor();
    expect(await text("Rewind test.md")).toBe(first);
    expect(await p.answers.count(), "the conversation stays").toBe(2);
    await page().getByRole("button", { name: "Undo going back" }).click();
    await dialog().getByRole("heading", { name: "1 file is restored" }).waitFor();
    await dialog().getByRole("button", { name: "Undo it" }).click();
    await expect.poll(() => text("Rewind test.md")).toBe(second);
  });

  test("shows what would come back, what would not and why, and what stays done", async () => {
    await talk();
    const plan: Partial<RewindResult> = {
      files: [
        { path: "Work/LinkedIn ideas.md", outcome: "left", why: "somebody else has changed it since" },
        { path: "Shopping list.md", outcome: "restored", before: "1", after: "2", added: 1, removed: 1, diff: "--- a/Shopping list.md\n+++ b/Shopping list.md\n@@ -3,3 +3,3 @@\n ## Food\n \n-- [ ] Milk and bread\n+- [ ] Milk\n" },
        { path: "Garden/New plan.md", outcome: "restored", before: "1", removed: 4, diff: "--- a/Garden/New plan.md\n+++ b/Garden/New plan.md\n@@ -1,2 +0,0 @@\n-# New plan\n-\n" },
        { path: "Inbox.md", outcome: "same" },
      ],
      effects: [
        { call: "c1", turn: "t", tool: "linkedin_post", text: "Posted to LinkedIn: urn:li:share:123", outcome: "ok" },
        { call: "c2", turn: "t", tool: "linkedin_post_comment", text: "Comment on LinkedIn on urn:li:share:99", outcome: "unknown" },
      ],
    };
    await page().route("**/rewind", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...((await response.json()) as object), ...plan } });
    });
    await back().first().focus();
    await page().keyboard.press("Enter");
    await dialog().getByRole("heading", { name: "2 files are restored" }).waitFor();
    await dialog().getByRole("radio", { name: /^Only the conversation/ }).waitFor();
    await dialog().getByText("Somebody else has changed it since.").waitFor();
    await dialog().getByText("Comment on LinkedIn on urn:li:share:99 (it may have taken effect)").waitFor();
    await dialog().getByRole("button", { name: /^Shopping list\.md/ }).click();
    await dialog().getByRole("table").waitFor();
    await lookAt(browser, "rewind", 1300, [1440, 390]);
    await page().keyboard.press("Escape");
    await expect.poll(() => dialog().count()).toBe(0);
    expect(await parts(page()).answers.count(), "nothing was done").toBe(2);
  });
});
