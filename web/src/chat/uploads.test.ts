import { expect, test } from "vitest";

import { ApiError } from "../api/client.ts";
import type { Attachment } from "../api/types.gen.ts";
import { mostBytes, settled, sizeText, UploadList } from "./uploads.ts";

const file = (name: string, size = 3): File => ({ name, size }) as File;
const given = (name: string, more: Partial<Attachment> = {}): Attachment => ({ id: `id-${name}`, name, media_type: "text/plain", size: 3, ...more });

function rig() {
  const waiting = new Map<string, { give(a: Attachment): void; fail(e: unknown): void; signal: AbortSignal; sent(bytes: number): void }>();
  let drawn = 0;
  const list = new UploadList((f, signal, sent) => new Promise((give, fail) => waiting.set(f.name, { give, fail, signal, sent })), () => drawn++);
  return { list, waiting, drawn: () => drawn, end: async () => new Promise((r) => setTimeout(r, 0)) };
}

test("files are uploaded, tried again, removed and taken", async () => {
  const { list, waiting, end } = rig();
  list.add([file("a"), file("b"), file("c"), file("d")]);
  expect(settled(list.now)).toBe(false);
  waiting.get("a")?.give(given("a"));
  waiting.get("b")?.fail(new ApiError({ code: "unreachable", message: "x" }));
  waiting.get("d")?.give(given("d", { unread: "It is an archive." }));
  await end();
  expect(list.now.list.map((u) => [u.state, u.error ?? ""])).toEqual([["there", ""], ["failed", "The server could not be reached."], ["uploading", ""], ["there", ""]]);
  expect(list.now.says).toContain("d is attached, but its text cannot be read: It is an archive.");
  const [, b, c] = list.now.list;
  list.retry(b!.key);
  list.remove(c!.key);
  expect(waiting.get("c")?.signal.aborted).toBe(true);
  waiting.get("c")?.give(given("c"));
  waiting.get("b")?.give(given("b"));
  await end();
  expect(settled(list.now)).toBe(true);
  const taken = list.take();
  expect(taken.map((f) => f.name)).toEqual(["a", "b", "d"]);
  expect(list.now.list).toEqual([]);
  list.put(taken);
  list.put(taken);
  expect(list.take()).toEqual(taken);
});

test("an upload says how far it is, once for each percent, and begins anew when it is tried again", async () => {
  const { list, waiting, drawn, end } = rig();
  list.add([file("a", 1000)]);
  const percent = () => list.now.list[0]?.percent;
  expect(percent()).toBe(undefined);
  const before = drawn();
  for (const bytes of [455, 456, 459, 1200]) waiting.get("a")?.sent(bytes); // the last one with what surrounds the file
  expect([percent(), drawn() - before]).toEqual([100, 2]);
  expect(list.now.says).toBe("Uploading a");
  const late = waiting.get("a");
  late?.fail(new ApiError({ code: "unreachable", message: "x" }));
  await end();
  late?.sent(500);
  list.retry(list.now.list[0]!.key);
  expect([list.now.list[0]?.state, percent()]).toEqual(["uploading", undefined]);
  list.remove(list.now.list[0]!.key);
  waiting.get("a")?.sent(500);
  expect(list.now.list).toEqual([]);
});

test("the same file is attached once", async () => {
  const { list, waiting, end } = rig();
  list.add([file("a"), file("again")]);
  waiting.get("a")?.give(given("a"));
  waiting.get("again")?.give(given("a"));
  await end();
  expect(list.now.list.map((u) => u.name)).toEqual(["a"]);
  expect(list.now.says).toBe("a is attached already");
});

test("files beyond the limits go nowhere, and say why", () => {
  const { list, waiting } = rig();
  list.add([file("empty", 0), file("large", mostBytes + 1), ...Array.from({ length: 11 }, (_, i) => file(`f${i}`))]);
  expect(list.now.list.filter((u) => u.state === "failed").map((u) => `${u.name}: ${u.error}`)).toEqual([
    "empty: It is empty, or a folder.",
    "large: It is larger than 20 MB.",
    "f10: A message has at most 10 files.",
  ]);
  expect(waiting.size).toBe(10);
});

test("sizes", () => {
  expect([0, 999, 1000, 999_499, 999_500, 20 << 20].map(sizeText)).toEqual(["0 B", "999 B", "1 KB", "999 KB", "1.0 MB", "21.0 MB"]);
});
