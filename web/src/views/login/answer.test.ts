import { expect, test } from "vitest";

import { answerIn } from "./answer.ts";

test("an answer is read from the query of the address", () => {
  expect(answerIn("?state=a.b&code=c%2B1&iss=https%3A%2F%2Fas.example&more=x")).toEqual({ state: "a.b", code: "c+1", iss: "https://as.example" });
  expect(answerIn("?error=access_denied&state=a.b")).toEqual({ state: "a.b", error: "access_denied" });
  for (const other of ["", "?code=c", "?state=a.b", "?state=&code=c"]) expect(answerIn(other)).toBeUndefined();
});
