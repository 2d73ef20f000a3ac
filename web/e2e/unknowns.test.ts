// Writes whose outcome is not known: the page names them while they are awaited, where the server was killed, and where
// an answer was stopped.

import { randomBytes } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { startGarden, type Garden } from "./garden.ts";
import { parts, phone, startBrowser, startServer, temporary, type Server } from "./harness.ts";

const apps = temporary();
const data = temporary();
let garden: Garden;
let server: Server;

describe.runIf(!process.env["PARLEY_URL"])("a write whose outcome is not known", () => {
  beforeAll(async () => {
    garden = await startGarden();
    const dir = join(apps, "desk");
    mkdirSync(dir);
    writeFileSync(join(dir, "clerk.md"), "Add the contact.");
    writeFileSync(
      join(dir, "app.yaml"),
      `model: scripted/desk
agents:
  clerk: {prompt: clerk.md, tools: [add_contact]}
script: script.yaml
tools:
  http:
    url: ${garden.url}
    secret: whsec_${randomBytes(32).toString("base64")}
    tools:
      add_contact:
        description: Adds a contact.
        subject: "{name}"
        timeout: 8s
        input: {type: object, properties: {name: {type: string}}, required: [name], additionalProperties: false}
policy: {rules: [{verdict: allow}]}
`,
    );
    writeFileSync(
      join(dir, "script.yaml"),
      `agents:
  clerk:
    - when: .Results
      say: "Added."
    - call:
        - tool: add_contact
          input: {name: Uwe}
`,
    );
    server = await startServer({ data, apps, pace: "1ms" });
  });
  afterAll(async () => {
    await server?.stop();
    await garden?.close();
    for (const dir of [apps, data]) rmSync(dir, { recursive: true, force: true });
  });

  test("is named while a stop waits for it, below the stopped answer, and where the server was killed", async () => {
    const browser = await startBrowser({ width: 1440, height: 900 });
    const { page } = browser;
    const p = parts(page);
    await page.addInitScript(() => localStorage.setItem("parley.theme", "system"));
    const look = async (name: string) => {
      for (const colorScheme of ["dark", "light"] as const) {
        await page.emulateMedia({ colorScheme });
        for (const size of [phone, { width: 1440, height: 900 }]) {
          await page.setViewportSize(size);
          await browser.shot(`unknowns-${name}-${colorScheme}-${size.width}`);
          expect(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
        }
        expect(await violations(page)).toEqual([]);
      }
    };
    await page.goto(`${server.url}/apps/desk/`);

    let sent = garden.lose("add_contact");
    await p.ask("Add Uwe");
    await sent;
    await p.stop.click();
    await p.last.getByText(/^Stopping: waiting for add_contact \(Uwe\), until \d\d:\d\d:\d\d at the latest\.$/).waitFor();
    expect(await p.input.getAttribute("placeholder")).toBe("Stopping…");
    await browser.shot("unknowns-stopping-1440");
    await p.last.getByText("The outcome of a call of add_contact (Uwe) is unknown: it may have taken effect. Check there before you ask again.").waitFor();
    await p.last.getByText("Stopped before an answer.").waitFor();
    expect(await p.last.innerText(), "as text, because a touch shows no title").toContain("Try again: may do add_contact again");
    await look("stopped");

    sent = garden.lose("add_contact");
    await p.ask("Add Uwe");
    await sent;
    const addr = new URL(server.url).host;
    await server.kill?.();
    server = await startServer({ data, apps, addr, pace: "1ms" });
    const card = p.last.getByRole("alert");
    await expect.poll(() => card.innerText()).toMatch(/add_contact \(Uwe\) was begun at \d\d:\d\d and may have taken effect\. Go on finds out what became of it, or asks you\./);
    expect(await card.getByRole("button").allInnerTexts()).toEqual(["Go on"]);
    await look("killed");
    expect(browser.complaints.filter((c) => !/ERR_/.test(c))).toEqual([]);
    await browser.close();
  });
});
