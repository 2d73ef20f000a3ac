// A stand-in of a browser's push service. A page in Chromium subscribes to it in place of the one of Google, which a test
// cannot reach. What the server sends is decrypted by a library that others wrote, and given to the page's worker as
// Chromium does with a message that arrives.

import { createECDH, randomBytes, type ECDH } from "node:crypto";
import { createServer, type Server as HTTPServer } from "node:http";
import type { AddressInfo } from "node:net";

import ece from "http_ece";
import type { CDPSession, Page } from "playwright-core";

export interface Message {
  id: string;
  type: string;
  title: string;
  body: string;
  tag: string;
  close?: boolean;
  interaction?: string;
  session?: string;
  choices?: string[];
}

export interface Sent {
  /** As it was decrypted. */
  text: string;
  message: Message;
  headers: Record<string, string | string[] | undefined>;
}

export class PushService {
  readonly sent: Sent[] = [];
  /** How requests are answered. */
  status = 201;
  readonly #key: ECDH;
  readonly #auth = randomBytes(16);
  readonly #server: HTTPServer;
  #url = "";

  private constructor() {
    this.#key = createECDH("prime256v1");
    this.#key.generateKeys();
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const text = ece.decrypt(Buffer.concat(parts), { version: "aes128gcm", privateKey: this.#key, authSecret: this.#auth }).toString();
        this.sent.push({ text, message: JSON.parse(text) as Message, headers: request.headers });
        response.writeHead(this.status).end();
      });
    });
  }

  static async start(): Promise<PushService> {
    const service = new PushService();
    await new Promise<void>((done) => service.#server.listen(0, "127.0.0.1", done));
    service.#url = `http://127.0.0.1:${(service.#server.address() as AddressInfo).port}/send/1`;
    return service;
  }

  /** Has the page subscribe here. Everything else of the page is as it is. */
  async of(page: Page): Promise<void> {
    const subscription = {
      endpoint: this.#url,
      expirationTime: null,
      keys: { p256dh: this.#key.getPublicKey("base64url"), auth: this.#auth.toString("base64url") },
    };
    await page.addInitScript((given) => {
      if (Notification.permission === "denied") {
        // A browser without notifications, as Chromium's headless shell is.
        Object.defineProperty(Notification, "permission", { get: () => "granted" });
        Notification.requestPermission = async () => "granted";
      }
      const kept = "test.subscribed";
      const made = (key: ArrayBuffer | null) => ({
        endpoint: given.endpoint,
        options: { applicationServerKey: key, userVisibleOnly: true },
        toJSON: () => given,
        unsubscribe: async () => {
          localStorage.removeItem(kept);
          return true;
        },
      });
      PushManager.prototype.getSubscription = async () => {
        const key = localStorage.getItem(kept);
        return key === null ? null : (made(Uint8Array.from(atob(key), (c) => c.charCodeAt(0)).buffer) as unknown as PushSubscription);
      };
      PushManager.prototype.subscribe = async (options) => {
        const key = options?.applicationServerKey as Uint8Array<ArrayBuffer>;
        localStorage.setItem(kept, btoa(String.fromCharCode(...key)));
        return made(key.buffer) as unknown as PushSubscription;
      };
    }, subscription);
  }

  stop(): Promise<void> {
    return new Promise((done) => this.#server.close(() => done()));
  }
}

/** The worker of a page, as DevTools know it. */
export class Worker {
  readonly #cdp: CDPSession;
  readonly #ids = new Map<string, string>();
  private constructor(cdp: CDPSession) {
    this.#cdp = cdp;
    cdp.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
      for (const r of registrations) this.#ids.set(r.scopeURL, r.registrationId);
    });
  }

  static async of(page: Page): Promise<Worker> {
    const cdp = await page.context().newCDPSession(page);
    const worker = new Worker(cdp);
    await cdp.send("ServiceWorker.enable");
    return worker;
  }

  /** Delivers a message as the browser does that got it from its push service. */
  async deliver(scope: string, text: string): Promise<void> {
    const registrationId = this.#ids.get(scope);
    if (registrationId === undefined) throw new Error(`no worker has the scope ${scope}: ${[...this.#ids.keys()].join(", ")}`);
    await this.#cdp.send("ServiceWorker.deliverPushMessage", { origin: new URL(scope).origin, registrationId, data: text });
  }
}
