import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";

import { Doubt } from "./AgentMessage.tsx";

test("what is doubtful about an answer is a sentence, in the colour of what is said aside", () => {
  const out = renderToStaticMarkup(<Doubt text={"the server counted far fewer tokens than were sent <b>"} />);
  expect(out).toContain("The server counted far fewer tokens than were sent &lt;b&gt;");
  expect(out).toMatch(/^<p role="note" class="[^"]*text-text-muted/);
});
