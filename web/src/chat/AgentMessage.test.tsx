import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import type { Exchange, Standing } from "../session/exchange.ts";
import type { Write } from "../session/writes.ts";
import { Doubt, Ending } from "./AgentMessage.tsx";
import type { Chat } from "./chat.ts";
import { ChatContext } from "./use-chat.ts";

test("doubt about an answer is a sentence in the colour of notes", () => {
  const out = renderToStaticMarkup(<Doubt text={"the server counted far fewer tokens than were sent <b>"} />);
  expect(out).toContain("The server counted far fewer tokens than were sent &lt;b&gt;");
  expect(out).toMatch(/^<p role="note" class="[^"]*text-text-muted/);
});

const shown = (standing: Standing, last: boolean, writes: readonly Write[], reason?: string): string => {
  const exchange: Exchange = { id: "t", question: "q", standing, stopping: false, steps: [], answer: "", cut: false, models: [], attempt: 1, asked: [], ...(reason && { reason }) };
  return renderToStaticMarkup(
    <ChatContext value={{} as Chat}>
      <Ending exchange={exchange} last={last} writes={writes} />
    </ChatContext>,
  );
};
const write = (state: Write["state"]): Write => ({ name: "add_contact (Uwe)", tool: "add_contact", sentAt: "2026-11-01T22:51:00", deadline: "2026-11-01T22:52:00", state });
const buttons = (out: string) => [...out.matchAll(/<button[^>]*>([^<]*)/g)].map((m) => m[1]);

test.each<[Standing, string, Write["state"][], string[], string[]]>([
  ["resuming", "", [], ["It goes on by itself."], []],
  ["interrupted", "", [], ["What was done is kept."], ["Go on", "Begin again"]],
  ["interrupted", "after its writes", ["done", "none"], ["What was done is kept."], ["Go on", "Begin again"]],
  ["interrupted", "in a write", ["done", "open"], ["add_contact (Uwe) was begun at 22:51 and may have taken effect. Go on finds out what became of it, or asks you."], ["Go on"]],
  ["interrupted", "in two writes", ["open", "unknown"], ["Go on finds out what became of them"], ["Go on"]],
  ["cancelled", "", ["none"], ["Stopped before an answer.</p>"], []],
  ["cancelled", "with writes", ["done", "unknown"], ["Stopped before an answer.", "add_contact (Uwe) was done.", "The outcome of a call of add_contact (Uwe) is unknown: it may have taken effect. Check there before you ask again."], []],
  ["failed", "with a write", ["done"], ["add_contact (Uwe) was done."], ["Try again: may do add_contact again"]],
])("below an answer that is %s %s stands what is to be done", (standing, _, states, says, can) => {
  const out = shown(standing, true, states.map(write));
  for (const text of says) expect(out).toContain(text);
  expect(buttons(out)).toEqual(can);
});

test("an interrupted answer that was resumed in vain says so", () => {
  const said = "the server stopped while the turn was running; it was resumed automatically twice without getting any further, and is left for you to resume";
  expect(shown("interrupted", true, [], said)).toContain("It was resumed automatically twice without getting any further, and is left for you to resume.");
  expect(shown("interrupted", true, [], "the server stopped while the turn was running")).not.toContain("running");
});

test("an interrupted answer that is not the last one names its write, and offers nothing", () => {
  const out = shown("interrupted", false, [write("open")]);
  expect(out).toContain("add_contact (Uwe) was begun at 22:51 and may have taken effect.");
  expect(out).not.toContain("Go on");
});
