// Files of one's own in a message: chosen, pasted and dropped, with a real server that reads them.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { violations } from "./axe.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

const data = temporary();
let server: Server;

const sizes = [
  ["phone", phone],
  ["desktop", { width: 1440, height: 900 }],
] as const;

const look = async (b: Browser, name: string) => {
  for (const colorScheme of ["dark", "light"] as const) {
    await b.page.emulateMedia({ colorScheme });
    expect(await violations(b.page)).toEqual([]);
    await b.shot(`${name}-${colorScheme}`);
  }
  expect(await b.page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false);
};

/** A picture of stripes, as a PNG. */
const picture = (b: Browser): Promise<number[]> =>
  b.page.evaluate(async () => {
    const c = new OffscreenCanvas(240, 160);
    const to = c.getContext("2d")!;
    for (let i = 0; i < 12; i++) {
      to.fillStyle = `hsl(${i * 30} 70% 55%)`;
      to.fillRect(i * 20, 0, 20, 160);
    }
    return [...new Uint8Array(await (await c.convertToBlob()).arrayBuffer())];
  });

describe.runIf(!process.env["PARLEY_URL"])("files in messages", () => {
  beforeAll(async () => {
    process.env["SHELF"] = join(import.meta.dirname, "attach/shelf.mjs");
    server = await startServer({ data, apps: join(import.meta.dirname, "attach"), pace: "1ms" });
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(data, { recursive: true, force: true });
  });

  test.each(sizes)("are uploaded, shown, removed and sent: %s", async (name, size) => {
    const b = await startBrowser(size, { touch: name === "phone" });
    const { page } = b;
    const { input, send, done } = parts(page);
    const chips = page.locator("footer").getByRole("list", { name: "Files" }).getByRole("listitem");
    await page.addInitScript(() => localStorage.setItem("parley.theme", "system"));
    await page.goto(`${server.url}/apps/library/`);
    await input.waitFor();

    // The button opens the dialog of the system.
    const choosing = page.waitForEvent("filechooser");
    await page.getByRole("button", { name: "Attach files" }).click();
    await (await choosing).setFiles([
      { name: "quarterly report.md", mimeType: "text/markdown", buffer: Buffer.from("# Report\n\nSales rose by 12 %.\n") },
      { name: "backup.zip", mimeType: "application/zip", buffer: Buffer.from("PK\x03\x04 and nothing more") },
      { name: "empty.txt", mimeType: "text/plain", buffer: Buffer.from("") },
    ]);
    await expect.poll(() => chips.count()).toBe(3);
    await chips.getByText("Not readable: It is a damaged archive.").waitFor();
    await chips.getByText("It is empty, or a folder.").waitFor();
    await page.locator("footer").getByRole("status").filter({ hasText: /is (not )?attached/ }).waitFor({ state: "attached" });

    // An image is pasted; text stays text.
    const png = await picture(b);
    const give = (kind: "paste" | "drop", files: { name: string; type: string; bytes: number[] }[]) =>
      page.evaluate(
        ({ kind, files }) => {
          const to = new DataTransfer();
          for (const f of files) to.items.add(new File([new Uint8Array(f.bytes)], f.name, { type: f.type }));
          if (kind === "paste") document.querySelector("#message")!.dispatchEvent(new ClipboardEvent("paste", { clipboardData: to, bubbles: true, cancelable: true }));
          else for (const type of ["dragenter", "dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: to, bubbles: true, cancelable: true }));
        },
        { kind, files },
      );
    await give("paste", [{ name: "image.png", type: "image/png", bytes: png }]);
    await expect.poll(() => chips.count()).toBe(4);
    await give("drop", [{ name: "prices.csv", type: "text/csv", bytes: [...Buffer.from("item,price\nhoe,12\n")] }]);
    await expect.poll(() => chips.count()).toBe(5);
    expect(await page.getByText("Drop files to attach them").count()).toBe(0);
    await page.getByRole("button", { name: "Remove empty.txt" }).click();
    await expect.poll(() => chips.count()).toBe(4);
    expect(await page.evaluate(() => document.activeElement?.id)).toBe("message");
    await input.fill("What is in these?");
    await expect.poll(() => send.isEnabled()).toBe(true);
    await look(b, `files-chips-${name}`);

    await send.click();
    await done();
    expect(await chips.count()).toBe(0);
    const sent = page.getByRole("list", { name: "Attached files" }).getByRole("listitem");
    const names = async () => (await sent.allInnerTexts()).map((t) => t.replace(/^Download\s+/, "").split("\n")[0]?.trim()); // without the word for screen readers
    const all = ["quarterly report.md", "backup.zip", "image.png", "prices.csv"];
    expect(await names()).toEqual(all);
    await page.reload();
    await done();
    expect(await names()).toEqual(all);
    const saving = page.waitForEvent("download");
    await page.getByRole("link", { name: /^Download prices.csv/ }).click();
    expect((await saving).suggestedFilename()).toBe("prices.csv");
    await look(b, `files-sent-${name}`);

    // The model was told the texts, and why there is none.
    const { sessions } = (await (await fetch(`${server.url}/v1/sessions?app=library`)).json()) as { sessions: { id: string }[] };
    const log = await (await fetch(`${server.url}/v1/sessions/${sessions[0]!.id}/events?limit=200`)).text();
    for (const part of ["Sales rose by 12 %", "It is a damaged archive.", "hoe,12"]) expect(log).toContain(part);
    expect(b.complaints).toEqual([]);
    await b.close();
  });

  test("an upload shows how far it is, and can be cancelled", async () => {
    const b = await startBrowser(phone, { touch: true });
    const { page } = b;
    await page.addInitScript(() => localStorage.setItem("parley.theme", "system"));
    await page.goto(`${server.url}/apps/library/`);
    await parts(page).input.waitFor();
    const network = await page.context().newCDPSession(page);
    const slow = (bytes: number) => network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: bytes });
    await network.send("Network.enable");
    await slow(200_000);
    const chip = page.locator("footer").getByRole("list", { name: "Files" }).getByRole("listitem");
    const bar = chip.getByRole("progressbar");
    const percent = async () => Number((await bar.getAttribute("aria-valuenow")) ?? 0);
    const give = () => page.locator("input[type=file]").setInputFiles({ name: "a long name of a large diary of many years.txt", mimeType: "text/plain", buffer: Buffer.alloc(4_000_000, "words ") });
    await give();
    await expect.poll(percent).toBeGreaterThan(0);
    await look(b, "files-under-way");
    const before = await percent();
    expect(before).toBeLessThan(100);
    await expect.poll(percent).toBeGreaterThan(before);
    await page.getByRole("button", { name: /^Cancel the upload of a long name/ }).click();
    await expect.poll(() => chip.count()).toBe(0);
    await slow(-1);
    await give();
    await chip.getByText("4.0 MB", { exact: true }).waitFor();
    expect(await bar.count()).toBe(0);
    expect(b.complaints).toEqual([]);
    await b.close();
  });
});
