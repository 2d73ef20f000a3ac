import { expect, test } from "vitest";

import { callIn, resultText } from "./DirectCall.tsx";

test("the message of a direct call is its tool and input", () => {
  expect(callIn('light {"on":true}')).toEqual({ tool: "light", input: { on: true } });
  expect(callIn('light {"on":')).toEqual({ tool: "light", input: {} });
  expect(callIn("light")).toEqual({ tool: "light", input: {} });
});

test("a result in JSON is a block of code, and text stays text", () => {
  expect(resultText('{"a":1}')).toBe('```json\n{\n  "a": 1\n}\n```');
  expect(resultText('"It is on.\\nSince noon."')).toBe("It is on.\nSince noon.");
  for (const text of ["It is on.", "12", "{broken"]) expect(resultText(text)).toBe(text);
});
