// Notifications of an add-on of Home Assistant: the worker, its scope and all that it requests are below the prefix.

import { afterAll, beforeAll, expect, test } from "vitest";

import { phone, startBrowser, startServer, type Server } from "./harness.ts";
import { Ingress } from "./ingress.ts";
import { notificationsOf, touchIn, workerOf } from "./notified.ts";
import { PushService, Worker, type Message } from "./push-service.ts";

let server: Server;

beforeAll(async () => {
  process.env["PARLEY_AUTH_MODE"] = "ingress";
  process.env["PARLEY_AUTH_SUPERVISOR"] = "127.0.0.1";
  process.env["PARLEY_PUSH_ALLOW"] = "127.0.0.1";
  delete process.env["PARLEY_URL"]; // a server that runs already is not behind an ingress
  server = await startServer({ pace: "5ms" });
});
afterAll(() => server.stop());

test("a browser is registered below the prefix, and a permission is answered from its notification", async () => {
  const ingress = await Ingress.before(server.url);
  const service = await PushService.start();
  const browser = await startBrowser(phone, { touch: true, worker: true });
  const { page, context } = browser;
  await context.grantPermissions(["notifications"], { origin: ingress.url });
  await service.of(page);
  const worker = await Worker.of(page);

  const call = async <T>(method: string, path: string, body?: unknown) =>
    page.evaluate(
      async ([method, url, body]) => {
        const response = await fetch(url ?? "", { method: method ?? "", ...(body && { body, headers: { "Content-Type": "application/json" } }) });
        return (await response.json()) as unknown;
      },
      [method, ingress.addon + path, body === undefined ? "" : JSON.stringify(body)],
    ) as Promise<T>;
  const arrives = async (type: string): Promise<Message> => {
    await expect.poll(() => service.sent.some((s) => s.message.type === type)).toBe(true);
    const [sent] = service.sent.splice(service.sent.findIndex((s) => s.message.type === type), 1);
    if (!sent) throw new Error("it is gone");
    await workerOf(context);
    await worker.deliver(ingress.addon, sent.text);
    return sent.message;
  };
  const ask = async () => {
    for (const message of ["Turn on the bedroom ceiling light.", "Turn off the bedroom ceiling light."]) {
      const session = (await call<{ id: string }>("POST", "v1/sessions", { app: "home" })).id;
      const turn = (await call<{ id: string }>("POST", `v1/sessions/${session}/turns`, { message })).id;
      const waits = await call<{ interactions?: string[] }>("POST", `v1/turns/${turn}/await`, { timeout_ms: 30_000 });
      if (waits.interactions?.[0]) return { session, turn, interaction: waits.interactions[0] };
    }
    throw new Error("nothing asks");
  };

  await page.goto(`${ingress.addon}apps/home/`);
  await page.getByRole("button", { name: "Conversations", exact: true }).click();
  await page.getByRole("button", { name: /^App: / }).click();
  await page.getByRole("menuitem", { name: "Notifications" }).click();
  await page.getByRole("button", { name: "Turn on notifications" }).click();
  await page.getByText("Notifications are on.", { exact: true }).waitFor();
  expect((await workerOf(context)).url()).toBe(`${ingress.addon}worker.js`);
  await browser.shot("ingress-push-on");

  // A page of the host itself is in front: it has the same origin, does not hide the notification, and is told nothing.
  const { turn, interaction, session } = await ask();
  const dashboard = await context.newPage();
  await dashboard.goto(`${ingress.url}/lovelace`);
  await page.goto("about:blank");
  await dashboard.bringToFront();
  const message = await arrives("interaction.opened");
  await expect.poll(() => notificationsOf(context)).toMatchObject([{ tag: `interaction-${interaction}`, actions: ["allow", "deny"] }]);
  expect(await dashboard.evaluate(() => (window as unknown as { told: unknown[] }).told)).toEqual([]);
  ingress.asked.length = 0;
  await touchIn(context, message.tag, "allow");
  await expect.poll(() => ingress.asked).toContain(`POST /v1/interactions/${interaction}/answer`);
  await page.goto(`${ingress.addon}apps/home/#/${session}/${interaction}`);
  await expect.poll(async () => (await call<{ status: string }>("GET", `v1/turns/${turn}`)).status).toBe("completed");
  expect((await call<{ answer: { choice: string } }>("GET", `v1/interactions/${interaction}`)).answer.choice).toBe("allow");
  expect(await call("GET", "v1/devices")).toMatchObject({ devices: [{ kind: "webpush" }] });

  // Nobody else of the house has this browser.
  ingress.user = { id: "aaaa0000", name: "bea", displayName: "Bea" };
  expect(await call("GET", "v1/devices")).toEqual({ devices: [] });
  expect(ingress.outside).toEqual([]);
  expect(browser.complaints).toEqual([]);
  await browser.close();
  await service.stop();
  await ingress.close();
});
