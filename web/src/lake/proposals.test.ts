// A proposal on the page: what is decided, what becomes of it, and what is said about it.

import { beforeEach, describe, expect, test } from "vitest";

import { createClient, type Fetch } from "../api/client.ts";
import { Lakes, type Proposal, type ProposalFinding } from "../api/lakes.ts";
import { readPatches } from "../ui/diff/diff.ts";
import { appliable, byKind, Proposals, saidOf, waits } from "./proposals.ts";

const diff = (path: string) => `--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-a\n+b\n`;
const finding = (id: string, more: Partial<ProposalFinding> = {}): ProposalFinding => ({ id, kind: "broken-link", path: `docs/${id}.md`, why: "the link leads nowhere", mends: "takes it away", diff: diff(`docs/${id}.md`), status: "open", ...more });

let findings: ProposalFinding[];
let requests: string[];
/** Answers the next request instead of the server. */
let instead: Response | undefined;
let proposals: Proposals;

const now = () => proposals.store.getState();
const proposal = (): Proposal => {
  const counts: Record<string, number> = {};
  for (const f of findings) counts[f.status] = (counts[f.status] ?? 0) + 1;
  return { id: "p1", title: "Things to tidy up", at: "2026-11-28T04:00:00Z", branch: "tachikoma/p1", base: "c0", version: "v1", report: "# Report", counts, findings: findings.map((f) => ({ ...f })) };
};
const statuses = () => now().proposal?.findings?.map((f) => f.status);
const set = (id: string, more: Partial<ProposalFinding>) => (findings = findings.map((f) => (f.id === id ? { ...f, ...more } : f)));

beforeEach(async () => {
  findings = [finding("a"), finding("b", { kind: "orphan", diff: diff("INDEX.md") }), finding("c", { kind: "contradiction", diff: "", mends: "" })];
  [requests, instead] = [[], undefined];
  const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
  const fetch: Fetch = async (input, init) => {
    const url = new URL(input, "http://parley.test/");
    const asked = init?.body ? (JSON.parse(String(init.body)) as { findings: string[]; version: string }) : undefined;
    const ids = asked?.findings ?? [];
    if (asked) expect(asked.version).toBe("v1");
    requests.push(`${init?.method ?? "GET"} ${url.pathname} ${ids.join(" ")}`.trim());
    expect([url.searchParams.get("app"), url.searchParams.get("workspace")]).toEqual(["major", "lake"]);
    const own = instead;
    instead = undefined;
    if (own) return own;
    const one = url.searchParams.get("finding");
    if (one !== null) return json({ ...proposal(), findings: [{ ...findings.find((f) => f.id === one), diff: diff("whole.md"), diff_cut: undefined }] });
    if (url.pathname === "/v1/proposals") return json({ proposals: [{ ...proposal(), findings: undefined, report: "" }] });
    for (const id of ids) {
      const f = findings.find((x) => x.id === id);
      if (f?.status === "open") set(id, url.pathname.endsWith("/apply") ? { status: "applied", commit: "c1" } : { status: "rejected", by: "petra" });
    }
    return json(proposal());
  };
  proposals = new Proposals(new Lakes(createClient("http://parley.test/", fetch)), { app: "major", name: "lake" });
  await proposals.refresh();
  await proposals.open("p1");
});

test("older ones are read page by page, and stay when the newest are read again", async () => {
  const page = (ids: string[], next?: string) => new Response(JSON.stringify({ proposals: ids.map((id) => ({ ...proposal(), id, findings: undefined })), next }));
  const ids = () => now().list.map((p) => p.id);
  instead = page(["p3", "p2"], "p2");
  await proposals.refresh();
  instead = page(["p1"], "p1");
  await proposals.older();
  expect([ids(), now().next]).toEqual([["p3", "p2", "p1"], "p1"]);
  instead = page(["p4", "p3"], "p3");
  await proposals.refresh();
  expect([ids(), now().next]).toEqual([["p4", "p3", "p2", "p1"], "p1"]);
  instead = new Response(JSON.stringify({ error: { code: "unavailable", message: "not now" } }), { status: 503 });
  await proposals.older();
  expect([ids().length, now().next, now().error?.message]).toEqual([4, "p1", "not now"]);
  instead = page(["p0"]);
  await proposals.older();
  expect([ids(), now().next, now().error]).toEqual([["p4", "p3", "p2", "p1", "p0"], "", undefined]);
  const asked = requests.length;
  await proposals.older();
  expect(requests).toHaveLength(asked);
});

test("it waits until everything is decided, and the list knows it at once", async () => {
  expect(now().list.map(waits)).toEqual([true]);
  expect(await proposals.decide("apply", ["a"])).toEqual(["docs/a.md"]);
  expect([statuses(), now().said, now().list.map(waits)]).toEqual([["applied", "open", "open"], "1 is applied, each as a commit in your name.", [true]]);
  await proposals.decide("reject", ["b", "c"]);
  expect([now().said, now().list.map(waits), now().busy]).toEqual(["2 stay as they are, and will not be proposed again.", [false], false]);
});

test("the files of a change are read again, also those that it changes besides its page", async () => {
  expect(await proposals.decide("apply", ["b"])).toEqual(["docs/b.md", "INDEX.md"]);
});

test("a change that is not shown whole can be applied once it is", async () => {
  set("a", { diff_cut: true });
  await proposals.reread();
  expect(now().proposal?.findings?.map(appliable)).toEqual([false, true, false]);
  await proposals.whole("a");
  expect(now().proposal?.findings?.map(appliable)).toEqual([true, true, false]);
  expect(now().proposal?.findings?.[0]?.diff).toBe(diff("whole.md"));
});

test("what is chosen is kept while it can be applied", async () => {
  proposals.choose("a", true);
  proposals.choose("b", true);
  await proposals.decide("apply", ["a"]);
  expect([...now().chosen]).toEqual(["b"]);
  proposals.choose("b", false);
  expect(now().chosen.size).toBe(0);
});

test("what was changed meanwhile by others is said", async () => {
  set("a", { status: "stale", reason: "docs/a.md was changed since" });
  expect(await proposals.decide("apply", ["a", "b"])).toEqual(["docs/b.md", "INDEX.md"]);
  expect(now().said).toBe("1 is applied, each as a commit in your name. 1 could not be applied, because its page was changed since.");
});

test("what others have decided already is not claimed", async () => {
  set("a", { status: "rejected", by: "otto" });
  await proposals.decide("apply", ["a"]);
  expect([statuses()?.[0], now().said]).toEqual(["rejected", "Others have decided about that already."]);
});

test("what fails is said, and what is done of it is shown", async () => {
  proposals.choose("b", true);
  set("a", { status: "applied" });
  instead = new Response(JSON.stringify({ error: { code: "conflict", message: "somebody changes the lake now", hint: "try again" } }), { status: 409 });
  expect(await proposals.decide("apply", ["a", "b"])).toEqual([]);
  expect([now().error?.message, now().busy, statuses(), [...now().chosen]]).toEqual(["somebody changes the lake now", false, ["applied", "open", "open"], ["b"]]);
  await proposals.decide("apply", ["b"]);
  expect(now().error).toBeUndefined();
});

test("a second press while the first is on its way does nothing", async () => {
  await Promise.all([proposals.decide("apply", ["a"]), proposals.decide("reject", ["a"])]);
  expect(requests.filter((r) => r.startsWith("POST"))).toEqual(["POST /v1/proposals/p1/apply a"]);
});

test("many findings are decided in requests that the server takes", async () => {
  findings = Array.from({ length: 450 }, (_, i) => finding(`f${i}`));
  await proposals.reread();
  const ids = findings.map((f) => f.id);
  expect(await proposals.decide("apply", ids)).toHaveLength(450);
  expect(requests.filter((r) => r.startsWith("POST")).map((r) => r.split(" ").length - 2)).toEqual([200, 200, 50]);
  expect(now().said).toBe("450 are applied, each as a commit in your name.");
});

test("one that cannot be read says why, and can be read again", async () => {
  instead = new Response(JSON.stringify({ error: { code: "not_found", message: "there is no such proposal" } }), { status: 404 });
  await proposals.open("p2");
  expect([now().proposal, now().error?.message]).toEqual([undefined, "there is no such proposal"]);
  await proposals.open("p1");
  expect([now().proposal?.id, now().error]).toEqual(["p1", undefined]);
});

describe("what is shown", () => {
  test("is in the order of the kinds; those that the page does not know come last", () => {
    const list = [finding("1", { kind: "zebra" }), finding("2", { kind: "orphan" }), finding("3"), finding("4", { kind: "apple" }), finding("5")];
    expect(byKind(list).map((k) => [k.name, k.findings.map((f) => f.id)])).toEqual([
      ["Broken links", ["3", "5"]],
      ["Pages that nothing links to", ["2"]],
      ["apple", ["4"]],
      ["zebra", ["1"]],
    ]);
  });

  test("of a decision is one sentence for each outcome", () => {
    const of = (...status: ProposalFinding["status"][]): Proposal => ({ ...proposal(), findings: status.map((s, i) => finding(String(i), { status: s })) });
    expect(saidOf("reject", of("open"), of("rejected"), ["0"])).toBe("1 stays as it is, and will not be proposed again.");
    expect(saidOf("apply", of("open", "open", "open"), of("applied", "stale", "open"), ["0", "1", "2"])).toBe("1 is applied, each as a commit in your name. 1 could not be applied, because its page was changed since. 1 is still open.");
  });

  test("of a change of several files is each file", () => {
    const gone = "--- a/docs/old.md\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-# Old\n-text\n--- a/INDEX.md\n+++ b/INDEX.md\n@@ -1,2 +1,2 @@\n # Index\n-[[old]]\n+[[new]]\n";
    expect(readPatches(gone)?.map((f) => [f.path, f.what, f.diff?.added, f.diff?.removed])).toEqual([
      ["docs/old.md", "removed", 0, 2],
      ["INDEX.md", "changed", 1, 1],
    ]);
    expect(readPatches("--- /dev/null\n+++ b/n.md\n@@ -0,0 +1 @@\n+n\n")?.map((f) => [f.path, f.what])).toEqual([["n.md", "added"]]);
    expect(readPatches("x".repeat(400_001))).toBeUndefined();
  });
});
