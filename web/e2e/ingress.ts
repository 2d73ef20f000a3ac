// Home Assistant's ingress, as far as a page can tell. Requests below /api/hassio_ingress/TOKEN/ go to the add-on,
// without that prefix and with headers that name the user. The page must request nothing else of the host. It follows
// the real one's two proxies: homeassistant/components/hassio/ingress.py and supervisor/api/ingress.py.

import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const prefix = "/api/hassio_ingress/Xy_9-token";

export interface User {
  id: string;
  name: string;
  displayName: string;
}

export class Ingress {
  /** The host's address in the browser. */
  url = "";
  /** The requests that are not the add-on's. */
  readonly outside: string[] = [];
  readonly asked: string[] = [];
  /** What the add-on sends as its worker in place of its own, as after an update. */
  worker: ((script: string) => string) | undefined;
  user: User | undefined = { id: "6f1b2c3d4e5f60718293a4b5c6d7e8f9", name: "ana", displayName: "Ana" };
  readonly #target: URL;
  readonly #server = createServer((request, response) => this.#serve(request, response));

  private constructor(target: string) {
    this.#target = new URL(target);
  }

  /** port is that of one that was closed. */
  static async before(target: string, port = 0): Promise<Ingress> {
    const ingress = new Ingress(target);
    await new Promise<void>((ready) => ingress.#server.listen(port, "127.0.0.1", ready));
    ingress.url = `http://127.0.0.1:${(ingress.#server.address() as AddressInfo).port}`;
    return ingress;
  }

  /** The add-on's address. */
  get addon(): string {
    return `${this.url}${prefix}/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  #serve(from: IncomingMessage, to: ServerResponse): void {
    const path = from.url ?? "/";
    if (path === "/panel") {
      to.writeHead(200, { "Content-Type": "text/html" });
      to.end(`<!doctype html><title>Home Assistant</title><iframe title="Parley" src="${prefix}/" style="border:0;width:1400px;height:860px"></iframe>`);
      return;
    }
    if (path === "/lovelace") {
      to.writeHead(200, { "Content-Type": "text/html" });
      to.end("<!doctype html><title>Dashboard</title><script>window.told = []; navigator.serviceWorker.addEventListener('message', (e) => told.push(e.data)); navigator.serviceWorker.startMessages();</script>");
      return;
    }
    if (!path.startsWith(`${prefix}/`)) {
      if (path !== "/favicon.ico") this.outside.push(`${from.method} ${path}`); // the browser requests it for the panel
      to.writeHead(404).end();
      return;
    }
    this.asked.push(`${from.method} ${path.slice(prefix.length)}`);
    const headers: IncomingMessage["headers"] = { ...from.headers };
    // The two proxies request encodings that they understand, and decode the response.
    delete headers["accept-encoding"];
    for (const name of Object.keys(headers)) if (name.startsWith("x-remote-user-")) delete headers[name];
    if (this.worker && path.endsWith("/worker.js")) delete headers["if-none-match"]; // it is not what the add-on has
    headers["x-ingress-path"] = prefix;
    headers["x-forwarded-for"] = "192.168.1.20, 127.0.0.1";
    headers["x-forwarded-host"] = from.headers.host;
    headers["x-forwarded-proto"] = "http";
    headers["x-hass-source"] = "core.ingress";
    if (this.user) {
      headers["x-remote-user-id"] = this.user.id;
      headers["x-remote-user-name"] = this.user.name;
      headers["x-remote-user-display-name"] = this.user.displayName;
    }
    const on = request({ host: this.#target.hostname, port: this.#target.port, path: path.slice(prefix.length), method: from.method, headers }, (answer) => {
      const back = { ...answer.headers };
      // Only the media type itself is passed on.
      if (back["content-type"]) back["content-type"] = back["content-type"].split(";")[0]?.trim();
      if (this.worker && path.endsWith("/worker.js")) {
        const change = this.worker;
        delete back["content-length"];
        delete back.etag;
        let script = "";
        answer.setEncoding("utf8").on("data", (chunk: string) => (script += chunk)).once("end", () => to.writeHead(answer.statusCode ?? 502, back).end(change(script)));
        return;
      }
      to.writeHead(answer.statusCode ?? 502, back);
      to.flushHeaders();
      answer.pipe(to);
    });
    on.once("error", () => to.destroy());
    to.once("close", () => on.destroy());
    from.pipe(on);
  }
}
