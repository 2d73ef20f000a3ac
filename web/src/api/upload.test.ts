import { expect, test } from "vitest";

import { createKeyring } from "./keyring.ts";
import { uploaded } from "./upload.ts";

/** The part of an XMLHttpRequest that is used, driven by the test. */
class FakeRequest {
  static last: FakeRequest;
  readonly upload: { onprogress?: (e: { loaded: number }) => void } = {};
  readonly headers: [string, string][] = [];
  opened: unknown[] = [];
  sent: unknown;
  aborted = false;
  status = 0;
  statusText = "";
  response: unknown;
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;
  lines = "";
  constructor() {
    FakeRequest.last = this;
  }
  open(...args: unknown[]) {
    this.opened = args;
  }
  setRequestHeader(name: string, value: string) {
    this.headers.push([name, value]);
  }
  send(body: unknown) {
    this.sent = body;
  }
  abort() {
    this.aborted = true;
    this.onabort?.();
  }
  getAllResponseHeaders() {
    return this.lines;
  }
}

const request = () => new FakeRequest() as unknown as XMLHttpRequest;
const body = new Blob(["hello"]);

test("what has been sent is told, and the answer is that of fetch", async () => {
  const sent: number[] = [];
  const answer = uploaded("/up", { method: "POST", headers: { Accept: "application/json" }, body }, (n) => sent.push(n), request);
  const x = FakeRequest.last;
  expect([x.opened, x.headers, x.sent]).toEqual([["POST", "/up"], [["accept", "application/json"]], body]);
  x.upload.onprogress?.({ loaded: 2 });
  x.upload.onprogress?.({ loaded: 5 });
  Object.assign(x, { status: 413, statusText: "Too Large", response: new Blob(['{"a":1}']), lines: "Retry-After: 3\r\ncontent-type: application/json\r\n" });
  x.onload?.();
  const got = await answer;
  expect([got.status, got.statusText, got.headers.get("Retry-After"), await got.json()]).toEqual([413, "Too Large", "3", { a: 1 }]);
  expect(sent).toEqual([2, 5]);
});

test("an answer without a body, a failure and a cancellation are those of fetch", async () => {
  const empty = uploaded("/up", { body }, () => {}, request);
  Object.assign(FakeRequest.last, { status: 204, response: new Blob() });
  FakeRequest.last.onload?.();
  expect((await empty).body).toBe(null);

  const broken = uploaded("/up", { body }, () => {}, request);
  FakeRequest.last.onerror?.();
  await expect(broken).rejects.toBeInstanceOf(TypeError);

  const stop = new AbortController();
  const cancelled = uploaded("/up", { body, signal: stop.signal }, () => {}, request);
  stop.abort("removed");
  expect(FakeRequest.last.aborted).toBe(true);
  await expect(cancelled).rejects.toBe("removed");
  const before = FakeRequest.last;
  await expect(uploaded("/up", { body, signal: stop.signal }, () => {}, request)).rejects.toBe("removed");
  expect(FakeRequest.last).toBe(before); // none was made
});

test("a keyring adds its key to a request that wants to know what has been sent", async () => {
  const asked: RequestInit[] = [];
  const ring = createKeyring(
    (_, init) => {
      asked.push(init ?? {});
      return Promise.resolve(new Response("{}"));
    },
    () => ({ getItem: () => "secret", setItem: () => {}, removeItem: () => {} }),
  );
  const onSent = () => {};
  await ring.fetch("/up", { body, onSent });
  expect(asked.map((i) => [new Headers(i.headers).get("Authorization"), (i as { onSent?: unknown }).onSent])).toEqual([["Bearer secret", onSent]]);
});
