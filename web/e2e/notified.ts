// What a browser's worker shows, and what a person does with it.

import type { BrowserContext } from "playwright-core";

export interface Scope {
  registration: ServiceWorkerRegistration;
  dispatchEvent(e: Event): boolean;
  NotificationEvent: new (type: string, init: object) => Event;
  Notification: { permission: string };
  standIn?: boolean;
}

/** The worker. In a browser without notifications, as Chromium's headless shell is, a list takes their place. */
export async function workerOf(context: BrowserContext) {
  const own = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
  await own.evaluate(() => {
    const self_ = globalThis as unknown as Scope;
    if (self_.standIn || self_.Notification.permission === "granted") return;
    self_.standIn = true;
    let list: { title: string; body: string; tag: string; actions: unknown[]; data: unknown; close(): void }[] = [];
    self_.registration.showNotification = async (title, options) => {
      const tag = options?.tag ?? "";
      list = list.filter((n) => n.tag !== tag);
      list.push({ actions: [], body: "", data: undefined, ...options, tag, title, close: () => void (list = list.filter((n) => n.tag !== tag)) });
    };
    self_.registration.getNotifications = async (filter) => list.filter((n) => filter?.tag === undefined || n.tag === filter.tag) as unknown as Notification[];
    self_.NotificationEvent = class extends Event {
      constructor(type: string, init: object) {
        super(type);
        Object.assign(this, init, { waitUntil: () => undefined });
      }
    };
  });
  return own;
}

/** What the notifications on the screen say. */
export const notificationsOf = async (context: BrowserContext) =>
  (await workerOf(context)).evaluate(async () =>
    (await (globalThis as unknown as Scope).registration.getNotifications()).map((n) => ({ title: n.title, body: n.body, tag: n.tag, actions: (n as Notification & { actions: { action: string; title: string }[] }).actions.map((a) => a.action) })),
  );

/** Touches an action of a notification, as a person does. */
export const touchIn = async (context: BrowserContext, tag: string, action: string) =>
  (await workerOf(context)).evaluate(
    async ([tag, action]) => {
      const self_ = globalThis as unknown as Scope;
      const [notification] = await self_.registration.getNotifications({ tag: tag ?? "" });
      self_.dispatchEvent(new self_.NotificationEvent("notificationclick", { notification, action }));
    },
    [tag, action],
  );
