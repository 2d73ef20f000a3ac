// What the cards show and send, independent of the screen.

import type { Answer, Event, Interaction, InteractionKind, Question } from "../../api/types.gen.ts";
import type { Asked } from "../../session/records.ts";
import { nameOf } from "../../session/writes.ts";
import { clockExact } from "../../ui/text.ts";

/** The possible choices as sent by the server, otherwise those of the kind. */
export function choicesOf(i: Interaction): readonly string[] {
  if (i.choices && i.choices.length > 0) return i.choices;
  switch (i.kind) {
    case "permission":
      return ["allow", "allow_session", "deny"];
    case "confirmation":
      return ["allow", "deny"];
    case "unknown":
      return ["happened", "did_not", "again", "leave"];
    case "question":
      return ["answered"];
    case "credential":
    case "client":
      return ["deny"];
  }
}

const labels: Record<string, string> = {
  allow: "Allow once",
  allow_session: "Allow for this conversation",
  deny: "Deny",
  happened: "It happened",
  did_not: "It did not",
  again: "Do it again",
  leave: "Leave it",
  answered: "Answer",
  claimed: "Claimed by a client",
};

const effects: Record<string, string> = {
  happened: "The agent is told that the call took effect, and goes on.",
  did_not: "The agent is told that the call took no effect, and goes on.",
  again: "The call is sent once more. If it took effect before, it happens twice.",
  leave: "The agent is told that the outcome is unknown, and not to repeat the call.",
};

/** What each possible decision about a write of unknown outcome does. */
export function effectsOf(i: Interaction): { label: string; effect: string }[] {
  if (i.kind !== "unknown") return [];
  return choicesOf(i).flatMap((c) => (effects[c] ? [{ label: labelOf(i, c), effect: effects[c] }] : []));
}

export function labelOf({ kind, sampling }: Pick<Interaction, "kind" | "sampling">, choice: string): string {
  if (sampling && choice === "deny") return "Do not allow";
  if (kind === "confirmation" && choice === "allow") return "Yes, do it";
  if (kind === "confirmation" && choice === "deny") return "No";
  if (kind === "credential" && choice === "answered") return "Give it for this turn";
  if (kind === "question" && choice === "deny") return "Skip";
  if (kind === "client" && choice === "deny") return "Go on without it";
  return labels[choice] ?? choice;
}

const kinds: Record<InteractionKind, string> = {
  permission: "Permission",
  confirmation: "Confirmation",
  question: "Question",
  unknown: "Outcome unknown",
  credential: "Credential",
  client: "Waits for a client",
};

export const kindOf = (kind: InteractionKind): string => kinds[kind] ?? "Question";

/** The page that a person is asked to open; undefined if it is none that a link may lead to. */
export function pageOf(url: string | undefined): URL | undefined {
  if (!url || !URL.canParse(url)) return undefined;
  const at = new URL(url);
  const here = at.hostname === "localhost" || at.hostname === "127.0.0.1" || at.hostname === "[::1]";
  return (at.protocol === "https:" || (at.protocol === "http:" && here)) && at.username === "" ? at : undefined;
}

/** The time left to answer; "" if there is no limit. */
export function leftOf(expiresAt: string | undefined, now: number): { text: string; over: boolean; soon: boolean } {
  const at = Date.parse(expiresAt ?? "");
  if (Number.isNaN(at)) return { text: "", over: false, soon: false };
  const s = Math.ceil((at - now) / 1000);
  if (s <= 0) return { text: "the time to answer is over", over: true, soon: true };
  const soon = s < 300;
  if (s < 60) return { text: `${s} s left`, over: false, soon };
  if (s < 3600) return { text: soon ? `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} left` : `${Math.floor(s / 60)} min left`, over: false, soon };
  if (s < 48 * 3600) return { text: `${Math.round(s / 3600)} h left`, over: false, soon };
  return { text: `${Math.round(s / 86_400)} days left`, over: false, soon };
}

/** One line of a call's input. */
export interface Field {
  name: string;
  value: string;
  /** Shown as it would be written in code, on lines of its own. */
  block: boolean;
}

/** A call's input as names and values. Nested names are joined; a value without names is a single field. */
export function fieldsOf(input: unknown): Field[] {
  if (input === undefined || input === null) return [];
  if (!isObject(input)) return [{ name: "", ...valueOf(input) }];
  return named(input, "", 0);
}

const isObject = (v: unknown): v is object => typeof v === "object" && v !== null && !Array.isArray(v);

function named(input: object, before: string, depth: number): Field[] {
  return Object.entries(input).flatMap(([key, value]): Field[] => {
    const name = before + key;
    if (!isObject(value) || depth >= 2) return [{ name, ...valueOf(value) }];
    return Object.keys(value).length === 0 ? [] : named(value, `${name}.`, depth + 1);
  });
}

function valueOf(value: unknown): { value: string; block: boolean } {
  if (typeof value === "string") return { value, block: value.includes("\n") || value.length > 120 };
  if (Array.isArray(value) && value.every((v) => typeof v === "string" || typeof v === "number")) {
    return { value: value.join(", "), block: false };
  }
  if (typeof value === "object" && value !== null) {
    const flat = JSON.stringify(value);
    return flat.length <= 60 ? { value: flat, block: false } : { value: JSON.stringify(value, null, 2), block: true };
  }
  return { value: String(value), block: false };
}

/** Parses what was typed as a call's input; tools take objects. */
export function parseInput(text: string): { value: unknown } | { error: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.replace(/^JSON\.parse: /, "") : "";
    return { error: `This is not JSON${why ? `: ${why}` : ""}` };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { error: "The input of a call is an object: { … }" };
  return { value };
}

/** The choice for one question: labels and free text. */
export interface Picked {
  labels: readonly string[];
  /** Whether "Other" is chosen. */
  other: boolean;
  text: string;
}

export const nothingPicked: Picked = { labels: [], other: false, text: "" };

/** Selects an option; in a question with several answers, toggles it. */
export function pick(q: Question, have: Picked, label: string, on: boolean): Picked {
  if (!q.multi_select) return { ...have, labels: on ? [label] : [], other: false };
  const labels = (q.options ?? []).map((o) => o.label).filter((l) => (l === label ? on : have.labels.includes(l)));
  return { ...have, labels };
}

export function pickOther(q: Question, have: Picked, on: boolean): Picked {
  return { ...have, labels: q.multi_select ? have.labels : on ? [] : have.labels, other: on };
}

const answerOf = (p: Picked): string => [...p.labels, ...(p.other && p.text.trim() !== "" ? [p.text.trim()] : [])].join(", ");

/** The answers by question; undefined until every question has one. */
export function answersOf(questions: readonly Question[], picked: Readonly<Record<string, Picked>>): Record<string, string> | undefined {
  const answers: Record<string, string> = {};
  for (const q of questions) {
    const text = answerOf(picked[q.question] ?? nothingPicked);
    if (text === "") return undefined;
    answers[q.question] = text;
  }
  return answers;
}

/** What the log says about the call of an interaction. */
export function factsOf(i: Interaction, events: readonly Event[] | undefined): string[] {
  if (i.kind !== "unknown" || !i.call || !events) return [];
  const facts: string[] = [];
  for (const e of events) {
    if (e.seq === 0 || !e.data) continue;
    if (e.type === "tool.started" && e.data.call === i.call) {
      const attempt = e.data.attempt > 1 ? `, attempt ${e.data.attempt}` : "";
      facts.push(`${nameOf(e.data)} was begun at ${clockExact(e.time)}${attempt}.`);
    } else if (e.type === "tool.ended" && e.data.call === i.call) {
      const why = e.data.error && !i.text?.includes(e.data.error.message) ? `: ${e.data.error.message}` : "";
      facts.push(`By ${clockExact(e.time)} nobody could say whether it took effect${why}.`);
    }
  }
  return facts;
}

/** The state of an answer from this page. */
export type Sending =
  | { state: "idle" }
  | { state: "sending"; answer: Answer }
  /** Accepted by the server; the log will confirm it. */
  | { state: "sent"; answer: Answer }
  /** Somebody else answered first, or the time was over. */
  | { state: "late"; answer: Answer; message: string; hint: string }
  | { state: "refused"; answer: Answer; field: string; message: string; hint: string };

export const idle: Sending = { state: "idle" };

/** Maps a failed answer to its state. */
export function failed(answer: Answer, error: { code: string; field: string; message: string; hint: string }): Sending {
  const { message, hint, field } = error;
  if (error.code === "conflict" || error.code === "not_found") return { state: "late", answer, message, hint };
  return { state: "refused", answer, field, message, hint };
}

/** The notice for an answer of this page that did not count, once the log says which one did. */
export function lateNotice(s: Sending, a: Asked): string {
  if (s.state !== "late") return "";
  const mine = labelOf(a.interaction, s.answer.choice);
  return a.expired !== undefined
    ? `Your answer, “${mine}”, came after the time was over.`
    : `Your answer, “${mine}”, came too late: the first one counts.`;
}
