import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import type { Exchange, Standing } from "../session/exchange.ts";
import { Doubt, Ending } from "./AgentMessage.tsx";
import type { Chat } from "./chat.ts";
import { ChatContext } from "./use-chat.ts";

test("doubt about an answer is a sentence in the colour of notes", () => {
  const out = renderToStaticMarkup(<Doubt text={"the server counted far fewer tokens than were sent <b>"} />);
  expect(out).toContain("The server counted far fewer tokens than were sent &lt;b&gt;");
  expect(out).toMatch(/^<p role="note" class="[^"]*text-text-muted/);
});

test.each<[Standing, string, string[]]>([
  ["resuming", "It goes on by itself.", []],
  ["interrupted", "What was done is kept.", ["Go on", "Begin again"]],
])("below an answer that is %s stands what is to be done", (standing, says, buttons) => {
  const exchange: Exchange = { id: "t", question: "q", standing, stopping: false, steps: [], answer: "", cut: false, models: [], attempt: 1, asked: [] };
  const out = renderToStaticMarkup(
    <ChatContext value={{} as Chat}>
      <Ending exchange={exchange} last />
    </ChatContext>,
  );
  expect(out).toContain(says);
  expect([...out.matchAll(/<button[^>]*>([^<]*)/g)].map((m) => m[1])).toEqual(buttons);
});
