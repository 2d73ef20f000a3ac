// What a person does with major, from the first question to a server that was killed: on both runtimes, on the desktop and
// on a phone beside it. The Claude CLI is no part of Parley: `make test-claude` installs it.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, onTestFinished, test } from "vitest";

import { violations } from "./axe.ts";
import { parts, phone, startBrowser, startServer, temporary, type Browser } from "./harness.ts";

const change = "Set the status of the page on support hours to draft";

/** The authors and subjects of the lake's commits that turns made, the newest first. */
const commits = (data: string): string[] =>
  execFileSync("git", ["-C", join(data, "workspaces/local/lake"), "log", "--grep=^Parley-Turn: ", "--format=%an: %s"]).toString().split("\n").filter(Boolean);

async function flow(runtime: string, cli?: string): Promise<void> {
  const data = temporary();
  onTestFinished(() => rmSync(data, { recursive: true, force: true }));
  const how = { data, pace: "10ms", ...(cli && { claude: cli }) };
  let server = await startServer(how);
  onTestFinished(() => server.stop());
  const desk = await startBrowser({ width: 1440, height: 900 }, { reducedMotion: true, worker: true });
  onTestFinished(() => desk.close());
  const hand = await startBrowser(phone, { touch: true, reducedMotion: true, worker: true });
  onTestFinished(() => hand.close());
  const p = parts(desk.page);
  const card = (b: Browser) => b.page.locator("main [data-interaction]").last();
  const said = () => p.last.locator(".prose").innerText();
  const dialog = desk.page.getByRole("dialog");
  /** Looks at what the page shows. */
  const look = async (b: Browser, name: string) => {
    await b.shot(`major-${runtime}-${name}`);
    expect(await violations(b.page), name).toEqual([]);
    expect(await b.page.evaluate(() => document.documentElement.scrollWidth - innerWidth), name).toBeLessThanOrEqual(0);
  };
  /** Waits until n answers are shown, and the last of them is complete. */
  const answered = async (n: number) => {
    await expect.poll(() => p.answers.count()).toBe(n);
    await p.done();
    await p.stop.waitFor({ state: "detached" });
  };

  // An entity is attached, and asked about.
  await desk.page.goto(`${server.url}/apps/major/`);
  if (runtime !== "loop") {
    await desk.page.getByRole("button", { name: /^Runtime: / }).click();
    await desk.page.getByRole("menuitemradio", { name: /Claude/ }).click();
  }
  await desk.page.getByRole("tab", { name: "Lake" }).click();
  await desk.page.getByRole("searchbox", { name: "Search the lake" }).fill("support hours");
  await desk.page.getByRole("list", { name: "Entities" }).getByRole("button", { name: /^Support hours/ }).click();
  await desk.page.getByRole("button", { name: "Actions for support-hours.md" }).click();
  await desk.page.getByRole("menuitem", { name: "Attach to this conversation" }).click();
  await desk.page.getByRole("list", { name: "Attached to this conversation" }).getByRole("button", { name: "Support hours", exact: true }).waitFor();
  await p.ask("When is the support line answered?");
  await answered(1);
  expect(await said()).toMatch(/07:00 to 19:00[\s\S]*docs\/support-hours\.md/);
  await look(desk, "attached");
  await desk.page.getByRole("button", { name: "Close the file" }).click();
  await p.ask("Who is on call this week, and what happens if nobody answers?");
  await answered(2);
  expect(await said()).toMatch(/is on call this week, which is week \d+ \(docs\/on-call\.md/);

  // A change is proposed, and asked about. The server is killed meanwhile. It is made once.
  await p.ask(change);
  await card(desk).getByRole("button", { name: "Allow once" }).waitFor();
  expect((await card(desk).locator("[data-front]").innerText()).replaceAll(/\s+/g, " ")).toMatch(/^status now: active → then: draft updated now: [\d-]+ → then: [\d-]+$/);
  await look(desk, "permission");
  expect(commits(data)).toEqual([]);
  await server.kill?.();
  server = await startServer({ ...how, addr: server.url.replace("http://", "") });
  await card(desk).getByRole("button", { name: "Allow once" }).click();
  await answered(3);
  expect(await said()).toMatch(/was changed, in commit [0-9a-f]{12}/);
  expect(commits(data)).toEqual(["local: The status of Support hours is draft"]);
  await desk.shot(`major-${runtime}-changed`);

  // A question is answered on the phone, while the desktop watches.
  await p.ask("show port");
  await card(desk).getByRole("heading", { name: /^Which page do you mean/ }).waitFor();
  await hand.page.goto(`${server.url}/apps/major/`);
  await hand.page.getByRole("button", { name: /^Inbox: 1 question waits/ }).tap();
  await hand.page.getByRole("dialog", { name: "Waits for you" }).getByRole("link").first().tap();
  await card(hand).getByText("Port Ellery", { exact: true }).tap();
  await look(hand, "phone-question");
  await card(hand).getByRole("button", { name: "Answer" }).tap();
  await expect.poll(() => card(desk).innerText()).toMatch(/^Answered · Which page do you mean[\s\S]*Port Ellery$/);
  await answered(4);
  await parts(hand.page).done();
  for (const b of [desk, hand]) expect(await parts(b.page).last.locator(".prose").innerText()).toContain("lake/customers/port-ellery.md");
  await desk.shot(`major-${runtime}-answered`);
  await hand.shot(`major-${runtime}-phone-answered`);

  // An answer is stopped, on the phone too.
  await p.ask("Which meetings are there?"); // many
  await p.last.locator(".prose").getByText("lake/meetings/").first().waitFor();
  await p.stop.click();
  await p.last.getByText("Stopped here.").waitFor();
  await parts(hand.page).last.getByText("Stopped here.").waitFor();
  await desk.shot(`major-${runtime}-stopped`);

  // A fork, which clients make over the API, goes on by itself.
  const list = (await (await fetch(`${server.url}/v1/sessions?app=major`)).json()) as { sessions: { id: string; runtime?: string }[] };
  expect(list.sessions.map((x) => x.runtime ?? "loop")).toEqual([runtime]);
  const fork = (await (await fetch(`${server.url}/v1/sessions/${list.sessions[0]!.id}/fork`, { method: "POST" })).json()) as { id: string };
  await hand.page.goto(`${server.url}/apps/major/#/${fork.id}`);
  await expect.poll(() => parts(hand.page).answers.count()).toBe(5);
  await parts(hand.page).ask("Who is on call next week?");
  await expect.poll(() => parts(hand.page).answers.count()).toBe(6);
  await parts(hand.page).done();
  await look(hand, "phone-fork");
  expect(await p.answers.count()).toBe(5);

  // The conversation goes back to before the change, and forth. The commit stays, as the dialog says.
  await desk.page.getByRole("button", { name: "Go back to before this message" }).nth(2).focus();
  await desk.page.keyboard.press("Enter");
  await dialog.getByRole("heading", { name: "3 messages are taken back" }).waitFor();
  await dialog.getByRole("heading", { name: "1 file stays as it is" }).waitFor();
  await dialog.getByText("Change docs/support-hours.md").waitFor();
  await dialog.getByText(/^The change is a commit in the lake, which stays/).waitFor();
  await look(desk, "rewind");
  await dialog.getByRole("button", { name: "Go back" }).click();
  await expect.poll(() => p.answers.count()).toBe(2);
  expect(await p.input.inputValue()).toBe(change);
  await desk.shot(`major-${runtime}-rewound`);
  expect(commits(data)).toEqual(["local: The status of Support hours is draft"]);
  await desk.page.getByRole("button", { name: "Undo" }).click();
  await dialog.getByRole("heading", { name: "3 messages come back" }).waitFor();
  await dialog.getByRole("button", { name: "Undo it" }).click();
  await expect.poll(() => p.answers.count()).toBe(5);

  expect([...desk.complaints, ...hand.complaints]).toEqual([]);
}

/** The Claude CLI where `make test-claude` installs it; undefined: it has not. */
function installed(): string | undefined {
  const named = process.env["PARLEY_TEST_CLAUDE"];
  const modules = join(import.meta.dirname, "../../internal/runtime/claudecli/real/node_modules");
  if (named || !existsSync(modules)) return named;
  const packages = join(modules, "@anthropic-ai");
  const found = readdirSync(packages).map((name) => join(packages, name, "claude")).find((path) => existsSync(path));
  if (!found) throw new Error(`${packages} has no Claude CLI`);
  return found;
}

describe.runIf(!process.env["PARLEY_URL"])("what a person does with major", () => {
  test("on Parley's own loop", () => flow("loop"));

  test("on the Claude CLI", ({ skip }) => {
    const cli = installed();
    if (!cli) skip("the Claude CLI is not installed; make test-claude installs it");
    return flow("claude", cli);
  });
});
