import { expect, test } from "vitest";

import type { Login } from "../../api/types.gen.ts";
import { answerIn, doneText, otherAnswerIn } from "./answer.ts";

test("an answer is read from the query of the address", () => {
  expect(answerIn("?state=a.b&code=c%2B1&iss=https%3A%2F%2Fas.example&more=x")).toEqual({ state: "a.b", code: "c+1", iss: "https://as.example" });
  expect(answerIn("?error=access_denied&state=a.b")).toEqual({ state: "a.b", error: "access_denied" });
  for (const other of ["", "?code=c", "?state=a.b", "?state=&code=c"]) expect(answerIn(other)).toBeUndefined();
});

test("an answer of LinkedIn is handed in where the server says, and at no other path", () => {
  const at = encodeURIComponent("/api/linkedin/oauth/callback");
  expect(otherAnswerIn(`?at=${at}&code=c%2B1&state=s`)).toEqual({ service: "LinkedIn", path: "api/linkedin/oauth/callback?code=c%2B1&state=s" });
  expect(otherAnswerIn(`?at=${at}`)).toEqual({ service: "LinkedIn", path: "api/linkedin/oauth/callback?" });
  for (const other of ["", "?state=s&code=c", "?at=/v1/server/kill&state=s", "?at=https://elsewhere.example/&state=s", "?at=constructor", "?at=//x/api/linkedin/oauth/callback"])
    expect(otherAnswerIn(other)).toBeUndefined();
});

test("only a login that a call waits for makes a conversation go on", () => {
  const login = { server: "post" } as Login;
  expect(doneText({ login, continues: true })).toBe("You are logged in at post. You can close this page; the conversation goes on by itself.");
  expect(doneText({ login, denied: true, continues: true })).toBe("You are not logged in at post. You can close this page; the conversation goes on by itself.");
  expect(doneText({ login })).toBe("You are logged in at post. You can close this page and go back to your conversation, where post can be used now.");
  expect(doneText({ login, denied: true })).toBe("You are not logged in at post. You can close this page.");
});
