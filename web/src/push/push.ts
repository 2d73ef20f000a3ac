// Registers this browser for notifications. The worker shows them (public/worker.js).

import type { Client } from "../api/client.ts";
import type { AddDevice, Delivery, Device, Notify, PushInfo } from "../api/types.gen.ts";

/** Why a browser cannot be notified. */
export type Obstacle = "unsupported" | "insecure" | "install" | "denied";

/** What stands in the way here; undefined: nothing. */
export function obstacle(w: Window & typeof globalThis = window): Obstacle | undefined {
  if (!w.isSecureContext) return "insecure";
  const standalone = w.matchMedia("(display-mode: standalone)").matches;
  if (!("serviceWorker" in w.navigator) || !("PushManager" in w) || !("Notification" in w)) {
    // An iPhone has them only for pages on its home screen.
    return /iPhone|iPad/.test(w.navigator.userAgent) && !standalone ? "install" : "unsupported";
  }
  return w.Notification.permission === "denied" ? "denied" : undefined;
}

const list = <T>(body: unknown, name: string): T[] => ((body as Record<string, T[]> | undefined)?.[name] ?? []);

export const readPush = async (client: Client): Promise<PushInfo> => (await client.request("GET", "v1/push")) as PushInfo;
export const readDevices = async (client: Client): Promise<Device[]> => list(await client.request("GET", "v1/devices"), "devices");
export const readNotify = async (client: Client): Promise<Notify> => (await client.request("GET", "v1/notifications")) as Notify;
export const saveNotify = async (client: Client, n: Notify): Promise<Notify> => (await client.request("PUT", "v1/notifications", { body: n })) as Notify;
export const readDead = async (client: Client): Promise<Delivery[]> => list(await client.request("GET", "v1/deliveries?dead=true"), "deliveries");
export const testDevice = async (client: Client, id: string): Promise<void> => void (await client.request("POST", `v1/devices/${encodeURIComponent(id)}/test`));
export const retryDelivery = async (client: Client, id: string): Promise<void> => void (await client.request("POST", `v1/deliveries/${encodeURIComponent(id)}/retry`));
export const dropDelivery = async (client: Client, id: string): Promise<void> => void (await client.request("DELETE", `v1/deliveries/${encodeURIComponent(id)}`));

/** The device that this browser is, as it was told when it was registered. */
const mine = "parley.device";

export function ownDevice(base: string): string {
  try {
    return localStorage.getItem(`${mine} ${base}`) ?? "";
  } catch {
    return "";
  }
}

function keepOwn(base: string, id: string): void {
  try {
    if (id === "") localStorage.removeItem(`${mine} ${base}`);
    else localStorage.setItem(`${mine} ${base}`, id);
  } catch {
    // No storage: this browser does not know which device it is.
  }
}

const worker = (base: string): Promise<ServiceWorkerRegistration> => navigator.serviceWorker.register(`${base}worker.js`, { scope: base });

export function bytesOf(key: string): Uint8Array<ArrayBuffer> {
  const text = atob(key.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(text, (c) => c.charCodeAt(0));
}

const same = (a: ArrayBuffer | null | undefined, b: Uint8Array): boolean => {
  const bytes = a ? new Uint8Array(a) : undefined;
  return bytes !== undefined && bytes.length === b.length && bytes.every((v, i) => v === b[i]);
};

/** What a person calls this browser. */
export function nameOf(agent: string): string {
  const browser = /Edg\//.test(agent) ? "Edge" : /Firefox\//.test(agent) ? "Firefox" : /Chrome\//.test(agent) ? "Chrome" : /Safari\//.test(agent) ? "Safari" : "Browser";
  const system = /iPhone/.test(agent) ? "iPhone" : /iPad/.test(agent) ? "iPad" : /Android/.test(agent) ? "Android" : /Mac OS/.test(agent) ? "Mac" : /Windows/.test(agent) ? "Windows" : /Linux/.test(agent) ? "Linux" : "";
  return system === "" ? browser : `${browser} on ${system}`;
}

/** Subscribes, with the server's key of now, and registers the device. */
async function subscribe(client: Client): Promise<string> {
  const { key = "" } = await readPush(client);
  const bytes = bytesOf(key);
  const registration = await worker(client.base);
  await navigator.serviceWorker.ready;
  let subscription = await registration.pushManager.getSubscription();
  if (subscription && !same(subscription.options.applicationServerKey, bytes)) {
    await subscription.unsubscribe(); // it is bound to a key that the server does not have any more
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes });
  return register(client, subscription.toJSON());
}

export async function register(client: Client, subscription: PushSubscriptionJSON): Promise<string> {
  const body: AddDevice = { kind: "webpush", name: nameOf(navigator.userAgent), subscription: subscription as unknown as NonNullable<AddDevice["subscription"]> };
  const made = (await client.request("POST", "v1/devices", { body })) as Device;
  keepOwn(client.base, made.id);
  return made.id;
}

/** Asks for permission, which only a click may do, and registers this browser. False: it was refused. */
export async function enable(client: Client): Promise<boolean> {
  if ((await Notification.requestPermission()) !== "granted") return false;
  await subscribe(client);
  return true;
}

/** Unregisters this browser. */
export async function disable(client: Client): Promise<void> {
  const id = ownDevice(client.base);
  const registration = await navigator.serviceWorker.getRegistration(client.base);
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  keepOwn(client.base, "");
  if (id !== "") await remove(client, id);
}

/** Before the user signs out: whoever comes next to this browser is shown nothing of theirs. */
export async function leave(client: Client): Promise<void> {
  if (ownDevice(client.base) === "") return;
  await disable(client).catch(() => undefined); // signing out matters more, and the next user takes the browser over
}

export const remove = async (client: Client, id: string): Promise<void> => {
  await client.request("DELETE", `v1/devices/${encodeURIComponent(id)}`);
  if (id === ownDevice(client.base)) keepOwn(client.base, "");
};

/**
 * Installs the worker, which without a connection has a page that says so, and keeps the registration of a browser true that has one: a push service may
 * have given it another address, and the server another key.
 */
export async function connectWorker(client: Client, told: { open(hash: string): void; news(): void }): Promise<void> {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", (e: MessageEvent<Told>) => {
    const m = e.data;
    switch (m.type) {
      case "parley.open":
        told.open(m.hash);
        break;
      case "parley.news":
        told.news();
        break;
      case "parley.subscribe":
        void subscribe(client).catch(() => undefined);
        break;
      case "parley.answer":
        if (!client.locked()) return; // the worker has tried the same
        void client
          .request("POST", `v1/interactions/${encodeURIComponent(m.interaction)}/answer`, { body: m.body })
          .then(() => e.ports[0]?.postMessage(true), () => e.ports[0]?.postMessage(false));
    }
  });
  navigator.serviceWorker.startMessages();
  await quiet(); // the page comes first
  await worker(client.base);
  const { Notification: n } = window;
  if (ownDevice(client.base) === "" || typeof n === "undefined" || n.permission !== "granted" || !("PushManager" in window)) return;
  await subscribe(client);
}

/** Waits until the browser has time. */
const quiet = (): Promise<void> =>
  new Promise((done) => {
    if (typeof requestIdleCallback === "function") requestIdleCallback(() => done(), { timeout: 5000 });
    else setTimeout(done, 1000);
  });

type Told =
  | { type: "parley.open"; hash: string }
  | { type: "parley.news"; session?: string; interaction?: string }
  | { type: "parley.subscribe" }
  | { type: "parley.answer"; interaction: string; body: unknown };
