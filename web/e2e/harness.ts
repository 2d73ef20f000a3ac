// A real server and a real browser. PARLEY_URL names a running server. Without it, or if a test has its own apps,
// each file starts its own server, on a free port and over its own folder.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium, type Browser as Chromium, type BrowserContext, type Page } from "playwright-core";
import { afterAll } from "vitest";

const root = join(import.meta.dirname, "../..");
const binary = process.env["PARLEY_BIN"] ?? join(root, "bin/parley");
/** The time limits for a server's start and end, and for its whole life, in ms. */
const patience = 90_000;
const life = 30 * 60_000;
const shots = join(import.meta.dirname, "screenshots");

export interface Server {
  url: string;
  /** Where the demo's CRM is, once the server has said it. */
  crm: () => string | undefined;
  /** Only for a server of our own: ends it without warning, as a power cut does. */
  kill?: () => Promise<void>;
  stop(): Promise<void>;
}

/** Starts a server. With the folder and address of one that was killed, it takes its place. With apps, it also serves the apps in that folder; with own, the demo does. With login, people sign in at a simulated provider. With crm, the demo's CRM is at that address, and else at a free port. claude is the executable of the Claude CLI. */
export async function startServer(options: { data?: string; addr?: string; pace?: string; apps?: string; own?: string; login?: boolean; crm?: string; claude?: string } = {}): Promise<Server> {
  const given = process.env["PARLEY_URL"];
  if (given && !options.apps) return { url: given.replace(/\/$/, ""), crm: () => undefined, stop: async () => undefined };
  if (!existsSync(binary)) throw new Error(`${binary} is missing: run make build, or name a server by PARLEY_URL`);
  const mine = options.data === undefined;
  const data = options.data ?? temporary();
  const args = [...(options.apps ? ["serve", "--apps", options.apps] : ["demo", "--crm-addr", options.crm ?? "127.0.0.1:0", "--allow", "light.turn_on,light.turn_off,switch.turn_off"]), ...(options.own ? ["--apps", options.own] : []), ...(options.login ? ["--login"] : []), "--addr", options.addr ?? "127.0.0.1:0", "--data", data];
  const env = { ...process.env, ...(options.pace && { PARLEY_SCRIPTED_PACE: options.pace }), ...(options.claude && { PARLEY_CLAUDE_PATH: options.claude }) };
  const process_ = spawn(binary, args, { env, stdio: ["ignore", "pipe", "pipe"], timeout: life, killSignal: "SIGKILL" });
  const ended = new Promise<void>((done) => process_.once("exit", () => done()));
  const end = async (signal: NodeJS.Signals) => {
    if (process_.signalCode) return; // it was killed before
    process_.kill(signal);
    const late = setTimeout(() => process_.kill("SIGKILL"), patience);
    await ended;
    clearTimeout(late);
    if (process_.signalCode !== signal && process_.exitCode === null) throw new Error(`the server did not end within ${patience} ms, and was killed`);
  };
  let said = "";
  process_.stdout?.on("data", (chunk: Buffer) => {
    if (said.length < 64 * 1024) said += chunk.toString();
  });
  return {
    url: await addressOf(process_),
    crm: () => /^A page with the panel of the app leads: (http:\/\/\S+) /m.exec(said)?.[1],
    kill: () => end("SIGKILL"),
    stop: async () => {
      await end("SIGTERM");
      if (mine) rmSync(data, { recursive: true, force: true });
    },
  };
}

export const temporary = (): string => mkdtempSync(join(tmpdir(), "parley-e2e-"));

/** The address that a server prints. */
function addressOf(server: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = "";
    const late = setTimeout(() => {
      server.kill("SIGKILL");
      failed(new Error(`the server did not say within ${patience} ms where it listens:\n${said}`));
    }, patience);
    const read = (chunk: Buffer) => {
      said += chunk.toString();
      // Only this line: the log has other addresses too, such as the simulated house's.
      const url = /^listening on (https?:\/\/\S+)\n/m.exec(said)?.[1];
      if (!url) return;
      clearTimeout(late);
      found(url);
    };
    server.stdout?.on("data", read);
    server.stderr?.on("data", read);
    server.once("error", failed);
    server.once("exit", (code) => {
      clearTimeout(late);
      failed(new Error(`the server ended with ${code} before it listened:\n${said}`));
    });
  });
}

export interface Browser {
  page: Page;
  context: BrowserContext;
  /** The page's errors: violations of its security policy, and uncaught exceptions. */
  complaints: string[];
  shot(name: string): Promise<void>;
  close(): Promise<void>;
}

export const desktop = { width: 1280, height: 800 };
export const phone = { width: 390, height: 844 };

/** One Chromium serves the tests of a file: each has a context of its own, with storage, cache and cookies of its own. */
let started: Promise<Chromium> | undefined;

afterAll(async () => (await started)?.close());

const startChromium = () =>
  chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

/** With worker, the page's worker is installed. Tests that stand between page and server do without: requests that pass a worker pass them by. */
export async function startBrowser(viewport: { width: number; height: number }, options: { touch?: boolean; reducedMotion?: boolean; worker?: boolean } = {}): Promise<Browser> {
  started ??= startChromium();
  const context = await (await started).newContext({
    viewport,
    serviceWorkers: options.worker ? "allow" : "block",
    hasTouch: options.touch ?? false,
    isMobile: options.touch ?? false,
    reducedMotion: options.reducedMotion ? "reduce" : "no-preference",
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("console", (m) => {
    if (m.type() === "error" && !/Failed to load resource/.test(m.text())) complaints.push(m.text());
  });
  return {
    page,
    context,
    complaints,
    shot: async (name) => {
      mkdirSync(shots, { recursive: true });
      await page.screenshot({ path: join(shots, `${name}.png`), animations: "disabled" });
    },
    close: () => context.close(),
  };
}

/** The page as people find their way in it: by roles and names, as with a screen reader. */
export function parts(page: Page) {
  return {
    input: page.getByRole("textbox", { name: "Message" }),
    send: page.getByRole("button", { name: "Send", exact: true }),
    stop: page.getByRole("button", { name: "Stop", exact: true }),
    newChat: page.getByRole("button", { name: "New Chat" }),
    answers: page.locator("article"),
    last: page.locator("article").last(),
    sessions: page.locator("[data-session]"),
    ask: async (question: string) => {
      await page.getByRole("textbox", { name: "Message" }).fill(question);
      await page.keyboard.press("Enter");
    },
    /** Waits until the last answer is complete. */
    done: async () => {
      await page.locator("article").last().getByRole("button", { name: "Copy answer" }).waitFor();
    },
  };
}
