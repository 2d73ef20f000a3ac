// What a rewind does, in words.

import type { EffectLeft, FileRewound, RewindResult, RewindView, RewindWhat } from "../../api/types.gen.ts";
import { count } from "../../ui/text.ts";

export const many = (n: number, one: string, more = `${one}s`): string => `${count(n)} ${n === 1 ? one : more}`;

/** The ways to go back, for a conversation that has changed files. */
export const ways: readonly { what: RewindWhat; name: string; hint: string }[] = [
  { what: "both", name: "Conversation and files", hint: "As if the message had not been sent, but for what cannot be undone." },
  { what: "conversation", name: "Only the conversation", hint: "Files stay as they are now." },
  { what: "files", name: "Only the files", hint: "The conversation goes on from here." },
];

/** The files in a rewind by what becomes of them. */
export function sorted(files: readonly FileRewound[] | null | undefined): { restored: FileRewound[]; left: FileRewound[]; same: FileRewound[] } {
  const all = files ?? [];
  const of = (outcome: FileRewound["outcome"]) => all.filter((f) => f.outcome === outcome);
  return { restored: of("restored"), left: of("left"), same: of("same") };
}

/** What becomes of a file that is restored. */
export const becomes = (f: FileRewound): "created" | "changed" | "deleted" => (!f.after ? "deleted" : !f.before ? "created" : "changed");

/** An effect that stays. */
export function effectText(e: EffectLeft): string {
  const what = e.text || e.tool;
  return e.outcome === "unknown" && !e.resolution ? `${what} (it may have taken effect)` : what;
}

/** What was done, in a line: for people who come back to the conversation, and for screen readers. */
export function doneText(r: Pick<RewindResult | RewindView, "what" | "undoes" | "files" | "files_more"> & { turns?: number }): string {
  const { restored, left } = sorted(r.files);
  const files = [
    ...(restored.length > 0 ? [`${many(restored.length, "file")} restored`] : []),
    ...(left.length > 0 ? [`${many(left.length + (r.files_more ?? 0), "file")} left as ${left.length === 1 ? "it is" : "they are"}`] : []),
  ].join(", ");
  const turns = r.turns !== undefined && r.turns > 0 ? `${many(r.turns, "message")} ${r.undoes ? "brought back" : "taken back"}` : "";
  const all = [...(r.what === "files" ? [] : [turns]), files].filter((t) => t !== "").join("; ");
  const head = r.undoes ? "Going back was undone" : r.what === "files" ? "Files were taken back" : "You went back";
  return all === "" ? `${head}.` : `${head}: ${all}.`;
}
