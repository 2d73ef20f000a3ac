import { expect, test } from "vitest";

import type { EffectLeft, FileRewound } from "../../api/types.gen.ts";
import { becomes, doneText, effectText, sorted } from "./words.ts";

const file = (path: string, outcome: FileRewound["outcome"], more: Partial<FileRewound> = {}): FileRewound => ({ path, outcome, ...more });

test("files by what becomes of them", () => {
  const { restored, left, same } = sorted([file("a", "restored"), file("b", "left", { why: "it changed" }), file("c", "same"), file("d", "restored")]);
  expect([restored, left, same].map((l) => l.map((f) => f.path))).toEqual([["a", "d"], ["b"], ["c"]]);
  expect(sorted(null).restored).toEqual([]);
});

test.each([
  [{ before: "1", after: "2" }, "changed"],
  [{ before: "1" }, "deleted"],
  [{ after: "2" }, "created"],
])("a file with %j is %s", (more, want) => expect(becomes(file("a", "restored", more))).toBe(want));

test.each<[Partial<EffectLeft>, string]>([
  [{ text: "Posted to LinkedIn", outcome: "ok" }, "Posted to LinkedIn"],
  [{ text: "", outcome: "ok" }, "post"],
  [{ text: "Posted", outcome: "unknown" }, "Posted (it may have taken effect)"],
  [{ text: "Posted", outcome: "unknown", resolution: "happened" }, "Posted"],
])("an effect %j is said as %s", (e, want) => expect(effectText({ call: "c", turn: "t", tool: "post", outcome: "ok", ...e })).toBe(want));

test.each([
  [{ what: "both" as const, files: [file("a", "restored"), file("b", "left")], turns: 2 }, "You went back: 2 messages taken back; 1 file restored, 1 file left as it is."],
  [{ what: "conversation" as const, files: [], turns: 1 }, "You went back: 1 message taken back."],
  [{ what: "files" as const, files: [file("a", "restored"), file("b", "restored")], turns: 1 }, "Files were taken back: 2 files restored."],
  [{ what: "both" as const, undoes: 9, files: [file("a", "restored")], turns: 3 }, "Going back was undone: 3 messages brought back; 1 file restored."],
  [{ what: "files" as const, files: [] }, "Files were taken back."],
])("%j is said as %s", (r, want) => expect(doneText(r)).toBe(want));
