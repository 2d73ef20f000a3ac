import { expect, test } from "vitest";

import { troubleOf } from "./trouble.ts";

test("a budget is explained to who asked; its figures and settings stand apart", () => {
  const { text, hint, operator } = troubleOf({ code: "budget_tokens", message: "the turn reached its budget of tokens: 692 of 1000 are used", hint: "ask for less at once, or raise the app's budgets" }, undefined);
  expect(text + hint).not.toMatch(/budget|turn|\d/);
  expect(hint).toContain("Ask for less");
  expect(operator).toBe("The turn reached its budget of tokens: 692 of 1000 are used. Ask for less at once, or raise the app's budgets.");
});

test("any other failure is told as the server says it", () => {
  expect(troubleOf({ code: "unavailable", message: "the model is overloaded", hint: "try again" }, undefined)).toEqual({ text: "the model is overloaded", hint: "try again", operator: "" });
  expect(troubleOf(undefined, "nobody answered").text).toBe("nobody answered");
  expect(troubleOf(undefined, undefined).text).toBe("There was no answer.");
});
