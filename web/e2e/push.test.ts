// Notifications: what the server sends by web push, on a real page with its worker.

import { rmSync } from "node:fs";

import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";

import { parts, phone, startBrowser, startServer, temporary, type Browser, type Server } from "./harness.ts";
import { notificationsOf, touchIn, workerOf, type Scope } from "./notified.ts";
import { PushService, Worker, type Message } from "./push-service.ts";

let data: string;
let server: Server;
let service: PushService;
let browser: Browser;
let worker: Worker;

beforeAll(async () => {
  process.env["PARLEY_PUSH_ALLOW"] = "127.0.0.1";
  delete process.env["PARLEY_URL"]; // another server does not know this push service
  data = temporary();
  server = await startServer({ data, pace: "5ms" });
});
afterAll(async () => {
  await server.stop();
  rmSync(data, { recursive: true, force: true });
});

beforeEach(async () => {
  service = await PushService.start();
  browser = await startBrowser(phone, { touch: true, worker: true });
  await browser.context.grantPermissions(["notifications"], { origin: new URL(server.url).origin });
  await service.of(browser.page);
  worker = await Worker.of(browser.page);
});
afterEach(async () => {
  const { complaints } = browser;
  await browser.close();
  await service.stop();
  for (const d of await devices()) await call("DELETE", `/v1/devices/${d.id}`);
  expect(complaints).toEqual([]);
});

const page = () => browser.page;

async function call<T>(method: string, path: string, body?: unknown): Promise<{ status: number; body: T }> {
  const response = await fetch(server.url + path, { method, ...(body !== undefined && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }) });
  const text = await response.text();
  return { status: response.status, body: (text === "" ? undefined : JSON.parse(text)) as T };
}

const devices = async () => (await call<{ devices: { id: string; kind: string; name: string }[] }>("GET", "/v1/devices")).body.devices;

async function openSettings(): Promise<void> {
  await page().getByRole("button", { name: "Conversations", exact: true }).click();
  await page().getByRole("button", { name: /^App: / }).click();
  await page().getByRole("menuitem", { name: "Notifications" }).click();
}

async function turnOn(): Promise<void> {
  await page().goto(`${server.url}/apps/home/`);
  await openSettings();
  await page().getByRole("button", { name: "Turn on notifications" }).click();
  await page().getByText("Notifications are on.", { exact: true }).waitFor();
}

/** Begins a turn that asks for a permission, from elsewhere. */
async function ask(): Promise<{ session: string; turn: string; interaction: string }> {
  for (const message of ["Turn on the bedroom ceiling light.", "Turn off the bedroom ceiling light."]) {
    const session = (await call<{ id: string }>("POST", "/v1/sessions", { app: "home" })).body.id;
    const turn = (await call<{ id: string }>("POST", `/v1/sessions/${session}/turns`, { message })).body.id;
    const waits = (await call<{ interactions?: string[] }>("POST", `/v1/turns/${turn}/await`, { timeout_ms: 30_000 })).body;
    const interaction = waits.interactions?.[0];
    if (interaction !== undefined) return { session, turn, interaction }; // otherwise the light is as it should be
  }
  throw new Error("nothing asks");
}

/** The next message of a type that the push service got, given to the worker. */
async function arrives(type: string): Promise<Message> {
  await expect.poll(() => service.sent.some((s) => s.message.type === type)).toBe(true);
  const at = service.sent.findIndex((s) => s.message.type === type);
  const [sent] = service.sent.splice(at, 1);
  if (!sent) throw new Error("it is gone");
  await inWorker();
  await worker.deliver(`${server.url}/`, sent.text);
  return sent.message;
}

const inWorker = () => workerOf(browser.context);
const notifications = () => notificationsOf(browser.context);
const touch = (tag: string, action: string) => touchIn(browser.context, tag, action);

/** Leaves the page: what is in front of a person is not notified. */
const leave = () => page().goto("about:blank");

test("a browser is registered on a click, and a message reaches its worker", async () => {
  await page().goto(`${server.url}/apps/home/`);
  expect(await devices()).toEqual([]);
  await turnOn();
  expect((await devices()).map((d) => d.kind)).toEqual(["webpush"]);
  await browser.shot("push-on");
  await page().getByRole("button", { name: "Send a test" }).click();
  await arrives("test");
  await expect.poll(notifications).toMatchObject([{ title: "Parley", tag: "test" }]);
  // It stays registered when the page is opened again, once.
  await page().reload();
  await parts(page()).input.waitFor();
  expect(await devices()).toHaveLength(1);
  // The worker keeps nothing of the API, nor of anything else but the build.
  const kept = await page().evaluate(async () => {
    const all = await Promise.all((await caches.keys()).map(async (name) => (await caches.open(name)).keys()));
    return all.flat().map((request) => new URL(request.url).pathname);
  });
  expect(kept.filter((path) => !/^\/(?:assets\/|offline\.|theme\.js$|favicon\.svg$)/.test(path))).toEqual([]);
  // And it goes.
  await openSettings();
  const dialog = page().getByRole("dialog", { name: "Notifications" });
  await dialog.getByRole("button", { name: "Turn off", exact: true }).click();
  await dialog.getByRole("button", { name: "Turn on notifications" }).waitFor();
  expect(await devices()).toEqual([]);
});

test("a permission is answered from the notification, and everything goes on", async () => {
  await turnOn();
  await leave();
  const { turn, interaction } = await ask();
  const message = await arrives("interaction.opened");
  expect(message).toMatchObject({ interaction, tag: `interaction-${interaction}` });
  await expect.poll(notifications).toMatchObject([{ tag: message.tag, actions: ["allow", "deny"] }]);
  await touch(message.tag, "allow");
  await expect.poll(async () => (await call<{ status: string }>("GET", `/v1/turns/${turn}`)).body.status).toBe("completed");
  expect((await call<{ answer: { choice: string } }>("GET", `/v1/interactions/${interaction}`)).body.answer.choice).toBe("allow");
  await expect.poll(notifications).toEqual([]);
});

test("a permission that a notification does not show whole is opened, not answered there", async () => {
  await turnOn();
  await leave();
  const { turn, interaction } = await ask();
  await expect.poll(() => service.sent.length).toBe(1);
  await inWorker();
  // As the server sends it when its words are cut: TestLongPermission of package push.
  const { choices: _, ...cut } = JSON.parse(service.sent[0]?.text ?? "{}") as Message;
  await worker.deliver(`${server.url}/`, JSON.stringify(cut));
  await expect.poll(notifications).toMatchObject([{ tag: cut.tag, actions: ["open"] }]);
  await touch(cut.tag, "open");
  await expect.poll(notifications).toEqual([]);
  expect((await call<{ open: boolean }>("GET", `/v1/interactions/${interaction}`)).body.open).toBe(true);
  await call("POST", `/v1/turns/${turn}/cancel`, {});
});

test("what was answered elsewhere is closed here", async () => {
  await turnOn();
  await leave();
  const { interaction } = await ask();
  const message = await arrives("interaction.opened");
  await expect.poll(notifications).toHaveLength(1);
  await call("POST", `/v1/interactions/${interaction}/answer`, { choice: "deny" });
  expect(await arrives("interaction.answered")).toMatchObject({ close: true, tag: message.tag });
  await expect.poll(notifications).toEqual([]);
});

test("of a notification, the inbox and a WebSocket that answer at once, one wins", async () => {
  await turnOn();
  for (let round = 0; round < 3; round++) {
    const { session, turn, interaction } = await ask();
    await page().goto(`${server.url}/apps/home/`);
    await page().getByRole("button", { name: /^Inbox: 1/ }).first().click();
    const allow = page().getByRole("dialog", { name: "Waits for you" }).getByRole("button", { name: "Allow once" });
    await allow.waitFor();
    const bySocket = await page().evaluateHandle(async ([url, interaction]) => {
      const socket = new WebSocket(url ?? "");
      await new Promise((open) => socket.addEventListener("open", open));
      return () =>
        new Promise<number>((said) => {
          socket.addEventListener("message", (e) => {
            const m = JSON.parse(String(e.data)) as { type: string; status: number };
            if (m.type === "reply") said(m.status);
          });
          socket.send(JSON.stringify({ do: "answer", id: "1", interaction, body: { choice: "deny", text: "by the socket" } }));
        });
    }, [`${server.url.replace("http", "ws")}/v1/sessions/${session}/ws?deltas=false`, interaction]);
    const message = await arrives("interaction.opened");
    const other = (await inWorker()).evaluate(async (interaction) => {
      // The page is in front, so the worker shows nothing; it answers as it does on a click.
      const self_ = globalThis as unknown as Scope;
      await self_.registration.showNotification("x", { tag: "mine", data: { interaction } });
      const [notification] = await self_.registration.getNotifications({ tag: "mine" });
      self_.dispatchEvent(new self_.NotificationEvent("notificationclick", { notification, action: "deny" }));
    }, message.interaction ?? "");
    const reply = bySocket.evaluate((send) => send());
    const [, , status] = await Promise.all([other, allow.click({ timeout: 2000 }).catch(() => undefined), reply]); // the card may be gone before
    expect([200, 409]).toContain(status);
    await expect.poll(async () => (await call<{ status: string }>("GET", `/v1/turns/${turn}`)).body.status).toMatch(/completed|failed/);
    const log = (await call<{ events: { type: string }[] }>("GET", `/v1/sessions/${session}/events?types=interaction.*`)).body.events;
    expect(log.map((e) => e.type)).toEqual(["interaction.opened", "interaction.answered"]);
    service.sent.length = 0;
    for (const shown of await notifications()) await touchAway(shown.tag);
  }
});

const touchAway = async (tag: string) =>
  (await inWorker()).evaluate(async (tag) => {
    for (const n of await (globalThis as unknown as Scope).registration.getNotifications({ tag })) n.close();
  }, tag);

test("a question survives a restart of the server, and is answered on the phone where its notification leads", async () => {
  await turnOn();
  await leave();
  const { turn, interaction, session } = await ask();
  const message = await arrives("interaction.opened");
  await server.kill?.();
  server = await startServer({ data, addr: new URL(server.url).host, pace: "5ms" });
  // A touch on the notification opens the page at the question.
  await page().goto(`${server.url}/apps/home/#/${message.session}/${message.interaction}`);
  expect(message).toMatchObject({ session, interaction });
  const card = page().locator(`#ask-${interaction}`);
  await card.waitFor();
  await browser.shot("push-question");
  await card.getByRole("button", { name: "Allow once" }).click();
  await expect.poll(async () => (await call<{ status: string }>("GET", `/v1/turns/${turn}`)).body.status).toBe("completed");
  await parts(page()).done();
});

test("a subscription that the push service does not know any more is dropped", async () => {
  await turnOn();
  await leave();
  service.status = 410;
  await ask();
  await expect.poll(devices).toEqual([]);
});
