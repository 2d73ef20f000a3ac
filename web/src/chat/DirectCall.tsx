import type { Event } from "../api/types.gen.ts";
import { LongText } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { outputText } from "../ui/text.ts";
import { usePlainWords } from "./turn/words.ts";
import { useChat, useParts } from "./use-chat.ts";

const none: readonly Event[] = [];

/** Shown instead of a message: a tool call that a program made, in words. The steps show the original. */
export function DirectCall({ turn, question }: { turn: string; question: string }) {
  const events = useChat((s) => s.opened.records.events.get(turn)) ?? none;
  const { useWords = usePlainWords } = useParts();
  const words = useWords(events);
  const { tool, input } = callIn(question);
  return (
    <div className="ml-auto max-w-[70%] rounded-2xl border border-border px-4 py-2.5 plain wrap-anywhere text-text-primary max-sm:max-w-[85%]">
      <p className="text-xs text-text-muted">Called directly, without a model</p>
      <LongText text={tame(words.call(tool, input))} />
    </div>
  );
}

/** The call in the message of such a turn, which is the tool's name and its input as JSON. */
export function callIn(question: string): { tool: string; input: unknown } {
  const at = question.indexOf(" ");
  if (at < 0) return { tool: question, input: {} };
  try {
    return { tool: question.slice(0, at), input: JSON.parse(question.slice(at + 1)) };
  } catch {
    return { tool: question.slice(0, at), input: {} }; // the JSON was cut off
  }
}

/** The result of a call, as Markdown: JSON as a block of code. */
export function resultText(answer: string): string {
  try {
    const value: unknown = JSON.parse(answer);
    if (typeof value === "object" && value !== null) return "```json\n" + JSON.stringify(value, null, 2) + "\n```";
  } catch {
    // The result is not JSON.
  }
  return outputText(answer);
}
