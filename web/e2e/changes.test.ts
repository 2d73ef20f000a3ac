// What an agent changed in files, and what it asks before it changes one or posts something.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { foreseen, gardening } from "./changes.ts";
import { startBrowser, startServer, type Browser, type Server } from "./harness.ts";
import { lookAt } from "./looks.ts";
import { Stage } from "./stage.ts";

let server: Server;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  server = await startServer();
  stage = await Stage.before(server.url);
});
afterAll(async () => {
  await stage?.close();
  await server?.stop();
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  expect(complaints).toEqual([]);
});

const page = () => browser.page;

async function visit(path: string, height = 900): Promise<void> {
  browser = await startBrowser({ width: 1440, height }, { reducedMotion: true });
  await page().goto(`${stage.url}${path}`);
}

describe.runIf(!process.env["PARLEY_URL"])("an agent's work on files", () => {
  test("is shown as what changed, below the steps and among them", async () => {
    stage.put("notes", gardening(), "Roses");
    await visit("/apps/notes/#/S-garden", 1500);
    const changed = page().getByRole("region", { name: "Changed files" });
    await changed.getByText("4 files changed").waitFor();
    expect(await changed.locator("[data-changed]").count(), "many files are folded").toBe(0);
    await changed.getByRole("button", { name: /4 files changed/ }).click();
    await changed.getByRole("button", { name: /^garden\/roses\.md/ }).click();
    const table = changed.getByRole("table", { name: "Changes of garden/roses.md: 3 lines added, 2 lines removed" });
    await table.waitFor();
    expect(await table.locator("mark").allInnerTexts()).toContain("March");
    await changed.getByRole("button", { name: /^data\/rain\.ipynb/ }).click();
    await changed.getByText("This change is too large to be shown here.").waitFor();
    await lookAt(browser, "changes", 1500, [1440, 768, 390]);
    await page().setViewportSize({ width: 1440, height: 1500 });
    await page().getByRole("button", { name: /^Steps/ }).click();
    const steps = page().getByRole("region", { name: "Steps" });
    await steps.getByText("Searches for “rose” in files named *.md").waitFor();
    await steps.getByText("40 lines").waitFor();
    await steps.locator("[data-task=in_progress]").waitFor();
    await steps.getByRole("button", { name: /^garden\/plan\.md/ }).click();
    await steps.getByRole("table").waitFor();
    await lookAt(browser, "changes-steps", 2600, [1440, 390]);
  });

  test("asks first, and shows what will happen", async () => {
    for (const log of foreseen) stage.put("notes", log, "");
    await visit("/apps/notes/#/S-write", 900);
    for (const [id, text] of [["write", "a long ladder"], ["edit", "has a new trellis"], ["guarded", "mcpServers"], ["post", "3,000 characters"], ["reply", "LinkedIn takes no more"]] as const) {
      await page().setViewportSize({ width: 1440, height: 1000 });
      await page().goto(`${stage.url}/apps/notes/#/S-${id}`);
      await page().locator("[data-interaction]").getByText(text).first().waitFor();
      await lookAt(browser, `foreseen-${id}`, 1100, [1440, 390]);
    }
  });

  test("takes another text for the post", async () => {
    stage.put("notes", foreseen.find((log) => log[0]?.session === "S-post") ?? [], "");
    await visit("/apps/notes/#/S-post");
    const card = page().locator("[data-interaction]");
    await card.getByRole("figure", { name: "The post as it will look" }).getByText("Petra", { exact: true }).waitFor();
    expect(await card.getByRole("figure").innerText()).toContain("Thanks to Rosarium Sangerhausen for");
    await card.getByRole("button", { name: "Edit text…" }).click();
    const field = card.getByRole("textbox", { name: "Text of the post" });
    await field.fill("x".repeat(3001));
    await card.getByText("3,001 of 3,000 characters").waitFor();
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    await field.fill("The trellis is done.");
    await lookAt(browser, "foreseen-post-edited", 900, [1440, 390]);
    await card.getByRole("button", { name: "Allow with this text" }).click();
    await expect.poll(() => stage.answers.at(-1)?.answer).toEqual({ choice: "allow", input: { text: "The trellis is done." } });
  });
});
