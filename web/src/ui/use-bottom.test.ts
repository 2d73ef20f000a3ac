import { expect, test } from "vitest";

import { covers, follows, type Place } from "./use-bottom.ts";

const at = (top: number, height = 2000, seen = 500): Place => ({ top, height, seen });

test.each<[string, Place, Place, boolean, boolean]>([
  ["the end is reached by the reader", at(900), at(1490), false, true],
  ["the reader goes up", at(1500), at(1300), true, false],
  ["the reader goes on up", at(1300), at(1200), false, false],
  ["the reader goes down, and not to the end", at(900), at(1100), false, false],
  ["a plot comes between the scroll to the end and its event", at(1400), at(1500, 2400), true, true],
  ["a plot comes, and nothing else", at(1500), at(1500, 2400), true, true],
  ["what was done is folded", at(1500), at(1100, 1600), true, true],
  ["what was done is folded above one who reads further up", at(800), at(600, 1800), false, false],
  ["the keyboard of a phone opens", at(1500), at(1500, 2000, 250), true, true],
  ["the reader goes up while a plot comes", at(1500), at(1300, 2400), true, false],
])("%s", (_what, was, is, followed, want) => expect(follows(was, is, followed)).toBe(want));

test.each([
  ["ends above the button", { top: 100, bottom: 430 }, false],
  ["ends behind it", { top: 100, bottom: 470 }, true],
  ["goes on below the view", { top: 300, bottom: 900 }, true],
  ["begins below the view", { top: 510, bottom: 900 }, false],
])("a card that %s", (_what, card, want) => expect(covers({ bottom: 500 }, card)).toBe(want));
