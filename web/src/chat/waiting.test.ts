import { expect, test } from "vitest";

import type { InteractionKind } from "../api/types.gen.ts";
import type { Exchange, Standing } from "../session/exchange.ts";
import { heldIn, waitingIn } from "./waiting.ts";

const exchange = (standing: Standing, ...kinds: InteractionKind[]): Exchange => ({
  id: standing,
  question: "?",
  standing,
  stopping: false,
  steps: [],
  answer: "",
  cut: false,
  models: [],
  attempt: 1,
  asked: kinds.map((kind, i) => ({ seq: i, interaction: { id: `i${i}`, session: "s", turn: "t", kind, title: "?", opened_at: "" } })),
});

test.each<[InteractionKind[], RegExp, string]>([
  [["permission"], /^Declines what is asked above and/, "Decline and say this"],
  [["confirmation"], /^Declines/, "Decline and say this"],
  [["permission", "question"], /^Declines what is asked above, all of it,/, "Decline and say this"],
  [["question"], /^Skips the question above/, "Skip and say this"],
  [["question", "question"], /^Skips the questions above/, "Skip and say this"],
  [["client"], /^Goes on without the call above/, "Go on without it"],
  [["client", "client"], /^Goes on without the calls above/, "Go on without it"],
  [["client", "permission"], /^Declines/, "Decline and say this"],
  [["unknown"], /^Leaves what is open above as it is/, "Leave it and say this"],
])("what a message does to %j", (kinds, says, action) => {
  const w = waitingIn([exchange("completed"), exchange("waiting", ...kinds)], { maxOpenTurns: 1 });
  expect(w?.says).toMatch(says);
  expect(w).toMatchObject({ action, canQueue: false });
});

test("a message can come after it where the session has room for one", () => {
  const all = [exchange("waiting", "permission")];
  expect(waitingIn(all, { maxOpenTurns: 2 })?.canQueue).toBe(true);
  expect(waitingIn([...all, exchange("pending")], { maxOpenTurns: 2 })?.canQueue).toBe(false);
  expect(waitingIn([...all, exchange("pending")], { maxOpenTurns: 3 })).toMatchObject({ action: "Decline and say this", canQueue: true });
  expect(waitingIn([exchange("running")], { maxOpenTurns: 3 })).toBeUndefined();
});

test("a message closes the interrupted answer above it", () => {
  expect(waitingIn([exchange("completed"), exchange("interrupted")], { maxOpenTurns: 3 })).toMatchObject({ says: expect.stringMatching(/^Closes the interrupted answer above/), canQueue: false });
  for (const last of ["resuming", "completed", "cancelled"] as const) expect(waitingIn([exchange("interrupted"), exchange(last)], { maxOpenTurns: 3 })).toBeUndefined();
});

test.each<[Standing[], boolean]>([
  [[], false],
  [["pending"], false],
  [["completed", "pending"], false],
  [["failed", "pending"], false],
  [["completed", "cancelled"], false],
  [["cancelled", "pending"], true],
  [["completed", "cancelled", "pending", "pending"], true],
  [["cancelled", "pending", "cancelled"], true],
  [["expired", "pending"], true],
  [["interrupted", "pending"], true],
  [["cancelled", "pending", "running"], false],
  [["cancelled", "waiting", "pending"], false],
  [["cancelled", "pending", "sending"], false],
  [["cancelled", "pending", "unsent"], true],
])("after %j the queue is held: %s", (standings, held) => {
  expect(heldIn(standings.map((s) => exchange(s)))).toBe(held);
});
