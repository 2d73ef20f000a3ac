// fetch does not say how much of a body has been sent. XMLHttpRequest does, so a request that wants to know is made with it.

import type { Fetch } from "./client.ts";

/** As fetch, and onSent is told how many bytes of the body have been sent. */
export const send: Fetch = (input, init) => (init?.onSent ? uploaded(input, init, init.onSent) : fetch(input, init));

export function uploaded(input: string, init: RequestInit, onSent: (bytes: number) => void, request: () => XMLHttpRequest = () => new XMLHttpRequest()): Promise<Response> {
  return new Promise((done, failed) => {
    const { signal } = init;
    if (signal?.aborted) return failed(signal.reason);
    const x = request();
    const stop = () => x.abort();
    const end = (finish: () => void) => () => {
      signal?.removeEventListener("abort", stop);
      finish();
    };
    x.open(init.method ?? "POST", input);
    x.responseType = "blob";
    new Headers(init.headers).forEach((value, name) => x.setRequestHeader(name, value));
    x.upload.onprogress = (e) => onSent(e.loaded);
    x.onload = end(() => done(new Response(nothing.has(x.status) ? null : (x.response as Blob), { status: x.status, statusText: x.statusText, headers: headersOf(x.getAllResponseHeaders()) })));
    x.onerror = end(() => failed(new TypeError("the request failed")));
    x.onabort = end(() => failed(signal?.reason));
    signal?.addEventListener("abort", stop);
    x.send(init.body as XMLHttpRequestBodyInit);
  });
}

/** The statuses of a Response without a body. */
const nothing = new Set([204, 205, 304]);

function headersOf(lines: string): Headers {
  const headers = new Headers();
  for (const line of lines.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return headers;
}
