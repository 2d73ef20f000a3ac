// How a turn's steps are shown. An app's page may describe its tools' calls and results in words of its
// own.

import type { Event } from "../../api/types.gen.ts";
import { queryOf } from "../../session/exchange.ts";
import { toolCall, toolResult } from "./tools.ts";

export interface Words {
  /** What a tool was asked to do. */
  call(tool: string, input: unknown): string;
  /** A text of a tool or a person. */
  text(text: string): string;
}

/** Words for the steps of any app. */
export const plainWords: Words = { call: callOf, text: (text) => text };

export const usePlainWords = (_events: readonly Event[]): Words => plainWords;

/** A call in words, or as its tool's name and its only value, if that is a text. */
export function callOf(tool: string, input: unknown): string {
  const said = toolCall(tool, input);
  if (said !== "") return said;
  const one = queryOf(input);
  return humane(toolName(tool)) + (one !== "" && !one.startsWith("{") && !one.startsWith("[") ? `: ${one}` : "");
}

/** "read_file" of "mcp__files__read_file". */
const toolName = (tool: string): string => tool.replace(/^mcp__.+?__(?=.)/, "");

/** "Read slack mock" of "read_slack_mock". */
export function humane(id: string): string {
  const s = id.replace(/[_.]+/g, " ").trim();
  return s.charAt(0).toUpperCase() + s.slice(1);
}

/** What a call found, in a few words: the first line of its output, or what the tool's results have in common. */
export const foundBy = (tool: string | undefined, output: string): string => toolResult(tool ?? "", output) || firstLine(output);

/** The first line of a result, which says what it is. What leads over to the next line is left out, if there is a sentence before it. */
export const firstLine = (output: string): string => (output.trim().split("\n", 1)[0] ?? "").replace(/^(.+\.) [^.]+:$/, "$1").replace(/:$/, "");
