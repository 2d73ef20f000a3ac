import { describe, expect, onTestFinished, test, vi } from "vitest";

import { baseOf, createClient, type ApiError } from "./client.ts";

test.each([
  ["http://h/", "http://h/"],
  ["http://h/apps/chaos/", "http://h/"],
  ["http://h/apps/chaos/#/one", "http://h/"],
  ["https://h/ingress/abc/apps/chaos/", "https://h/ingress/abc/"],
  ["https://h/ingress/abc/", "https://h/ingress/abc/"],
  ["https://h/apps/proxy/apps/chaos/", "https://h/apps/proxy/"],
  ["http://h/chaos.html?x=1", "http://h/"],
])("baseOf(%s) is %s", (href, base) => expect(baseOf(href)).toBe(base));

describe("a refused request", () => {
  const failure = async (answer: () => Response): Promise<ApiError> => {
    const client = createClient("http://h/", async () => answer());
    return client.session("s").then(
      () => {
        throw new Error("it was not refused");
      },
      (cause: unknown) => cause as ApiError,
    );
  };
  const refused = (status: number, body: string, headers = {}) => new Response(body, { status, headers });

  test("keeps the server's code, words and hint", async () => {
    const body = '{"error":{"code":"busy","message":"a turn is running","hint":"wait","retry_after_ms":1500}}';
    expect(await failure(() => refused(409, body))).toMatchObject({ code: "busy", message: "a turn is running", hint: "wait", status: 409, retryAfterMs: 1500 });
  });

  test("takes the time to wait from the header when the body has none", async () => {
    expect(await failure(() => refused(503, '{"error":{"code":"unavailable","message":"starting"}}', { "Retry-After": "3" }))).toMatchObject({ retryAfterMs: 3000 });
  });

  test.each(["<html>Bad gateway</html>", "", "null", "[]", '{"error":"no"}', '{"error":null}', '{"error":{"code":1}}'])("says something when the body is %j", async (body) => {
    expect(await failure(() => refused(502, body))).toMatchObject({ name: "ApiError", code: "internal", status: 502, message: expect.stringContaining("502") });
  });

  test("is not found at 404, from any server", async () => {
    expect(await failure(() => refused(404, "no"))).toMatchObject({ code: "not_found" });
  });

  test("a device that is offline is told so, and not to check the server", async () => {
    vi.stubGlobal("navigator", { onLine: false });
    onTestFinished(() => void vi.unstubAllGlobals());
    expect(await failure(() => { throw new TypeError("fetch failed"); })).toMatchObject({ code: "unreachable", message: "This device is offline.", hint: expect.stringMatching(/^The page reconnects by itself/) });
  });

  test("a network that fails is said to be unreachable", async () => {
    expect(await failure(() => { throw new TypeError("fetch failed"); })).toMatchObject({ code: "unreachable", status: 0 });
  });

  test("an answer that is not JSON is an error", async () => {
    expect(await failure(() => refused(200, "<html>"))).toMatchObject({ code: "internal", message: "The server's answer was not understood." });
  });
});

test("ids cannot change the address", async () => {
  const asked: string[] = [];
  const client = createClient("http://h/", async (input) => {
    asked.push(input);
    return new Response("{}");
  });
  await client.session("../x?y#z");
  await client.cancel("a/b", "");
  expect(asked).toEqual(["http://h/v1/sessions/..%2Fx%3Fy%23z", "http://h/v1/turns/a%2Fb/cancel"]);
});
