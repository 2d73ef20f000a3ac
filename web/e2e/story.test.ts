// The story of the flickering lights in the page, on the real server with its simulated house: the cause, then a plan
// that is stopped and requested again. The answers have the values that the house recorded.

import { rmSync } from "node:fs";

import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { parts, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";

let server: Server;
let desk: Browser;

beforeEach(async () => {
  const data = temporary();
  onTestFinished(() => rmSync(data, { recursive: true, force: true }));
  server = await startServer({ data, pace: "20ms" });
  desk = await startBrowser({ width: 1440, height: 900 });
});
afterEach(async () => {
  const complaints = desk.complaints;
  await desk.close();
  await server.stop();
  expect(complaints).toEqual([]);
});

describe.runIf(!process.env["PARLEY_URL"])("the flickering lights", () => {
  test("are explained from the house's data; a plan is stopped, and made", async () => {
    const p = parts(desk.page);
    await desk.page.goto(`${server.url}/apps/home/`);
    await p.ask("Why did the bedroom lights flicker last night?");
    await expect.poll(() => p.last.innerText()).toMatch(/196\.3 to 23\d\.\d V[\s\S]*Five times the mains voltage dipped, each time when the heat pump compressor had just started\.[\s\S]*22:34/);
    await p.stop.waitFor({ state: "detached" });

    await p.ask("Create a mitigation plan and simulate impact.");
    await p.last.getByText("A plan for").waitFor();
    await p.stop.click();
    await p.last.getByText(/^Stopped/).waitFor();

    await p.ask("Create a mitigation plan and simulate impact.");
    await expect.poll(() => p.last.innerText()).toMatch(/A plan for[\s\S]*nothing has been changed[\s\S]*The simulation only counts what went together/);
    await p.stop.waitFor({ state: "detached" });
    await desk.shot("story-plan");
  });
});
