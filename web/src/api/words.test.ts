import { expect, test } from "vitest";

import { errorInPageWords, inPageWords } from "./words.ts";

test.each([
  ["a turn is running in this session", "a turn is running in this conversation"],
  ["you have 50 sessions, and the limit is 50", "you have 50 conversations, and the limit is 50"],
  ["the session's app, desk, is off", "the conversation's app, desk, is off"],
  ["Session 01ARZ is driven elsewhere now.", "Conversation 01ARZ is driven elsewhere now."],
  ["nothing was lost (the session).", "nothing was lost (the conversation)."],
  ["approve it with: parley session approve", "approve it with: parley session approve"],
  ["follow several sessions in one stream at /v1/sessions/a", "follow several conversations in one stream at /v1/sessions/a"],
  ['desk/app.yaml:3: unknown key "session"', 'desk/app.yaml:3: unknown key "session"'],
  ["begins with session.created, not session:7 or --session", "begins with session.created, not session:7 or --session"],
])("%s", (text, want) => expect(inPageWords(text)).toBe(want));

test("the words of another service are not changed, but our hint is", () => {
  expect(errorInPageWords({ code: "model_error", message: "it said: session expired", hint: "start a new session" })).toEqual({
    code: "model_error",
    message: "it said: session expired",
    hint: "start a new conversation",
  });
  expect(errorInPageWords({ code: "busy" })).toEqual({ code: "busy" });
});
