// Resources of MCP servers, attached by "@" on the page of an app, with a real server over stdio; and a server that
// asks the model in the middle of a call.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import type { SessionInfo } from "../src/api/types.gen.ts";
import { violations } from "./axe.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const data = temporary();
let server: Server;

const open = async (b: Browser) => {
  await b.page.addInitScript(() => localStorage.setItem("parley.theme", "system"));
  await b.page.goto(`${server.url}/apps/library/`);
};
const wider = (b: Browser) => b.page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
const look = async (b: Browser, name: string) => {
  for (const colorScheme of ["dark", "light"] as const) {
    await b.page.emulateMedia({ colorScheme });
    expect(await violations(b.page)).toEqual([]);
    await b.shot(`${name}-${colorScheme}`);
  }
  expect(await wider(b)).toBe(false);
};
const at = (b: Browser) => {
  const { page } = b;
  return {
    ...parts(page),
    menu: page.getByRole("listbox", { name: "Resources" }),
    options: page.getByRole("listbox", { name: "Resources" }).getByRole("option"),
    chosen: page.getByRole("listbox", { name: "Resources" }).getByRole("option", { selected: true }),
    chips: page.locator("footer").getByRole("list", { name: "Attached" }).getByRole("listitem"),
    alert: page.locator("footer").getByRole("alert"),
  };
};

/** The names of the sessions in which nothing was said. */
const empty = async () => {
  const list = (await (await fetch(`${server.url}/v1/sessions?app=library`)).json()) as { sessions: SessionInfo[] };
  return list.sessions.filter((s) => !s.preview).map((s) => s.id);
};

const sizes = [
  ["phone", phone],
  ["desktop", { width: 1440, height: 900 }],
] as const;

describe.runIf(!process.env["PARLEY_URL"])("resources", () => {
  beforeAll(async () => {
    process.env["SHELF"] = join(import.meta.dirname, "attach/shelf.mjs");
    server = await startServer({ data, apps: join(import.meta.dirname, "attach"), pace: "1ms" });
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(data, { recursive: true, force: true });
  });

  test.each(sizes)("are offered behind an @, and sent with the message: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { input, menu, options, chosen, chips, send, done, last } = at(b);
    await open(b);
    await input.pressSequentially("What grows in bed 3 of @");
    await menu.waitFor();
    expect(await options.count()).toBe(50);
    await b.page.getByText("16 more. Type a part of the name").waitFor();
    // The server that cannot be started says so, and does not hide the other.
    await b.page.getByRole("status").getByText("The MCP server attic").waitFor();
    await look(b, `attach-menu-${name}`);

    await input.pressSequentially("ga");
    await expect.poll(() => options.count()).toBe(3);
    expect(await chosen.innerText()).toMatch(/^Garden plan/);
    expect(await input.getAttribute("aria-activedescendant")).toBe(await chosen.getAttribute("id"));
    await input.press("ArrowDown");
    expect(await chosen.innerText()).toMatch(/^Harvest/);
    await input.press("ArrowUp");
    await input.press("Enter");
    await expect.poll(() => chips.allInnerTexts()).toEqual(["Garden plan\nshelf"]);
    expect(await input.inputValue()).toBe("What grows in bed 3 of ");
    await input.pressSequentially("@harv");
    await options.first().click();
    await expect.poll(() => chips.count()).toBe(2);
    await b.page.getByRole("button", { name: "Remove Harvest" }).click();
    await expect.poll(() => chips.count()).toBe(1);
    await input.pressSequentially("it?");
    await look(b, `attach-chips-${name}`);
    await send.click();
    await done();
    await last.getByText("Bed 3: tomatoes.").waitFor();
    const shown = () => last.getByRole("list", { name: "Attached" }).innerText();
    expect(await shown()).toBe("Garden plan\nshelf");
    expect(await chips.count()).toBe(0);
    await b.page.reload();
    await last.getByText("Bed 3: tomatoes.").waitFor();
    expect(await shown()).toBe("Garden plan\nshelf");
    await look(b, `attach-sent-${name}`);
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test.each(sizes)("of a template are asked for their values: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { input, menu, chosen, chips, done, last } = at(b);
    await open(b);
    await input.pressSequentially("Did it rain? @wea");
    await menu.waitFor();
    expect(await chosen.innerText()).toMatch(/^Weather of a day/);
    await input.press("Enter");
    const fields = b.page.getByRole("group", { name: "Values for Weather of a day" });
    expect(await fields.getByRole("button", { name: "Attach" }).isDisabled()).toBe(true);
    await b.page.keyboard.type("Bad Ischl");
    await fields.getByLabel("day").fill("2026-05-01");
    await look(b, `attach-template-${name}`);
    await b.page.keyboard.press("Enter");
    await expect.poll(() => chips.allInnerTexts()).toEqual(["Weather of a day: Bad Ischl, 2026-05-01\nshelf"]);
    expect(await input.evaluate((e) => e === document.activeElement)).toBe(true);
    await b.page.keyboard.press("Enter");
    await done();
    await last.getByText("Bad Ischl, 2026-05-01: rain.").waitFor();
    expect(await last.getByRole("list", { name: "Attached" }).innerText()).toBe("Weather of a day: Bad Ischl, 2026-05-01\nshelf");
    expect(await wider(b)).toBe(false);
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test.each(sizes)("that cannot be had leave the message in the box, and say why: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { input, menu, options, chips, alert, answers, done } = at(b);
    await open(b);
    for (const r of ["plan", "diary"]) {
      await input.pressSequentially(`@${r}`);
      await menu.waitFor();
      await options.first().click();
    }
    await input.pressSequentially("What happened in May?");
    await input.press("Enter");
    await alert.getByText("the file was moved").waitFor();
    expect(await input.inputValue()).toBe("What happened in May?");
    expect(await chips.allInnerTexts()).toEqual(["Garden plan\nshelf", "Old diary\nshelf"]);
    expect(await answers.count()).toBe(0);
    expect(await empty()).toEqual([]);
    expect(b.page.url()).toBe(`${server.url}/apps/library/`);
    await look(b, `attach-gone-${name}`);
    await b.page.getByRole("button", { name: "Remove Old diary" }).click();
    await input.press("End");
    await input.pressSequentially(" @seed");
    await menu.waitFor();
    await input.press("Tab");
    await input.press("Enter");
    await alert.getByText("is too large").waitFor();
    expect(await empty()).toEqual([]);
    await b.page.getByRole("button", { name: "Remove Seed catalogue" }).click();
    await input.press("Enter");
    await done();
    expect(await answers.count()).toBe(1);
    expect(await alert.count()).toBe(0);
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test.each(sizes)("of servers that are slow to answer are waited for, and the page says so: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { input, menu } = at(b);
    let answer = () => {};
    const answered = new Promise<void>((done) => (answer = done));
    await b.page.route(/\/resources$/, async (route) => {
      await answered;
      await route.continue();
    });
    await open(b);
    await input.pressSequentially("@");
    await b.page.getByText("Asking the MCP servers for their resources…").waitFor();
    await b.page.getByText("One of them may have to start first.").waitFor();
    await look(b, `attach-slow-${name}`);
    answer();
    await menu.waitFor();
    expect(await b.page.getByText("Asking the MCP servers").count()).toBe(0);
    await b.close();
  });

  test("a first message that is refused leaves no conversation in the list", async () => {
    const b = await startBrowser(sizes[1][1]);
    const { ask, newChat, input, send, done, sessions: rows } = at(b);
    await open(b);
    await ask("Hello");
    await done();
    await newChat.click();
    await rows.first().waitFor();
    const before = await rows.count();
    await input.fill("long ".repeat(60_000));
    await send.click();
    await b.page.getByRole("alert").getByText("longer than 256 KiB").waitFor();
    expect(await input.inputValue(), "it is back in the box, to be shortened").toContain("long long");
    expect(await empty()).toEqual([]);
    await expect.poll(() => rows.count()).toBe(before);
    expect(await b.page.getByText("New conversation").count()).toBe(0);
    await b.shot("attach-refused");
    await input.fill("And now?");
    await send.click();
    await done();
    await expect.poll(() => rows.count()).toBe(before + 1);
    await b.close();
  });

  test("are no matter of what merely looks like one", async () => {
    const b = await startBrowser(sizes[1][1]);
    const { input, menu, last, done } = at(b);
    await open(b);
    await input.pressSequentially("Write to ana@example.com and tell @");
    await menu.waitFor();
    await input.press("Escape");
    expect(await menu.count()).toBe(0);
    await input.pressSequentially("bob");
    expect(await menu.count()).toBe(0);
    await input.press("Enter");
    await done();
    await last.getByText("Nothing is attached to: Write to ana@example.com and tell @bob").waitFor();
    await b.close();
  });

  test.each(sizes)("a server asks the model in a call, and a person sees what it would read, and allows it once: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { ask, done, last } = at(b);
    const card = b.page.locator("main [data-interaction]").last();
    await open(b);
    await ask("What about the tides?");
    await card.getByRole("heading", { name: "shelf asks for a reply from the model" }).waitFor();
    const says = await card.innerText();
    for (const text of ["Answer in one sentence, for a child.", "What makes the tides?", "goes to the server shelf", "at most 200 tokens"]) expect(says).toContain(text);
    expect(await last.innerText()).not.toContain("The moon");
    await look(b, `sampling-asks-${name}`);
    await card.getByRole("radio", { name: /^This once/ }).check();
    await card.getByRole("button", { name: "Answer" }).click();
    await done();
    await last.getByText("Studied. The model said: The moon, mostly.", { exact: true }).waitFor();
    await b.page.reload();
    await last.getByText("Studied. The model said: The moon, mostly.", { exact: true }).waitFor();
    await look(b, `sampling-done-${name}`);
    // A permission for one time does not cover the next question.
    await ask("And the tides again?");
    await card.getByRole("heading", { name: "shelf asks for a reply from the model" }).waitFor();
    await card.getByRole("button", { name: "Do not allow" }).click();
    await done();
    expect(await last.innerText()).not.toContain("The moon");
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  // The last one: a server of the older era that was left in the middle of a reading has its next question refused,
  // since the question does not say which call it belongs to.
  test("that take long can be given up", async () => {
    const b = await startBrowser(sizes[1][1]);
    const { input, menu, chips, stop, last, done } = at(b);
    await open(b);
    await input.pressSequentially("@ledger");
    await menu.waitFor();
    await input.press("Enter");
    await input.pressSequentially("What is in it?");
    await input.press("Enter");
    await stop.click();
    await last.getByText("You stopped this before it was sent.").waitFor();
    await b.shot("attach-stopped");
    await last.getByRole("button", { name: "Edit" }).click();
    expect(await input.inputValue()).toBe("What is in it?");
    expect(await chips.allInnerTexts()).toEqual(["Ledger\nshelf"]);
    await b.page.getByRole("button", { name: "Remove Ledger" }).click();
    await input.press("Enter");
    await done();
    await last.getByText("Nothing is attached to: What is in it?").waitFor();
    await b.close();
  });
});
