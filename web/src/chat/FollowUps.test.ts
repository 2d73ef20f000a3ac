import { expect, test } from "vitest";

import { following } from "./FollowUps.tsx";

const app = { examples: ["What is the spec?"], follow_ups: ["And the library?", "Who said so?"] };

test("follow-ups of an example are offered below it, and below each other, once", () => {
  expect(following(app, ["What is the spec?"], "What is the spec?")).toEqual(["And the library?", "Who said so?"]);
  expect(following(app, ["What is the spec?", "And the library?"], "And the library?")).toEqual(["Who said so?"]);
});

test("no follow-up is offered below an unrelated answer", () => {
  expect(following(app, ["What is the spec?", "Is it raining?"], "Is it raining?")).toEqual([]);
  expect(following(undefined, [], "?")).toEqual([]);
});
