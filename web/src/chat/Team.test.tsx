import { readFileSync } from "node:fs";
import { join } from "node:path";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import type { Event } from "../api/types.gen.ts";
import { Tree } from "./Team.tsx";

const log: Event[] = readFileSync(join(import.meta.dirname, "../../../testdata/logs/sub-agents.ndjson"), "utf8")
  .split("\n")
  .filter((line) => line !== "")
  .map((line) => JSON.parse(line) as Event);

/** The text and the states of buttons in the tree of so many events. */
const shown = (events: readonly Event[], open: boolean) => {
  const html = renderToStaticMarkup(<Tree events={events} turn={`t${events.length}`} open={open} />);
  return {
    html,
    text: html.replace(/<svg.*?<\/svg>/gs, "").replace(/<[^>]+>/g, " ").replace(/\s+/g, " ").trim(),
    states: [...html.matchAll(/data-agent="([^"]*)" data-state="([^"]*)"/g)].map((m) => `${m[1]} ${m[2]}`),
    opened: [...html.matchAll(/aria-expanded="(true|false)"/g)].map((m) => m[1] === "true"),
  };
};

test("while a turn runs its agents are shown, with who asks what", () => {
  const then = log.slice(0, log.findIndex((e) => e.type === "interaction.opened") + 1);
  const { text, states, opened } = shown(then, true);
  expect(states).toEqual(["interface/researcher asks", "interface/researcher#2 working"]);
  expect(text).toMatch(/^2 agents help · 1 at work · 1 asks you/);
  expect(text).toContain("researcher Notion asks you");
  expect(text).toContain("Allow mail?");
  expect(text).toContain("researcher #2 Slack at work in the background");
  expect(opened).toEqual([true, true, true]);
});

test("when the turn is over the tree is folded, and nobody asks or works any more", () => {
  const { text, opened, states } = shown(log, false);
  expect(text).toMatch(/^2 agents helped/);
  expect(text).not.toContain("asks you");
  expect(opened[0]).toBe(false);
  expect(states.every((s) => !/ (asks|working)$/.test(s))).toBe(true);
});

test("each button names what it unfolds", () => {
  const { html } = shown(log, false);
  for (const [, id] of html.matchAll(/aria-controls="([^"]+)"/g)) expect(html).toContain(`id="${id}"`);
});

test("a turn of one agent shows nothing", () => expect(shown(log.slice(0, 3), true).html).toBe(""));
