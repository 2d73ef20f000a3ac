// Why there is no answer, or only a part of one, in words for the person who asked.

import type { ErrorInfo } from "../api/types.gen.ts";
import { sentence } from "../ui/text.ts";

export interface Trouble {
  text: string;
  hint: string;
  /** Only useful for somebody who may change the settings. */
  operator: string;
}

const budgets: Record<string, string> = {
  budget_tokens: "This needed more reading and writing than one answer may take.",
  budget_usd: "This would have cost more than one answer may cost.",
  budget_duration: "This took longer than one answer may take.",
  budget_steps: "This needed more steps than one answer may take.",
  budget_tool_calls: "This needed more steps than one answer may take.",
  budget_depth: "This went through more agents than one answer may.",
};

/** The person who asked can ask for less. The budget itself is set by somebody else, so its figures and settings are shown separately. */
export function troubleOf(error: ErrorInfo | undefined, reason: string | undefined): Trouble {
  const text = error && budgets[error.code];
  if (!text) return { text: error?.message ?? reason ?? "There was no answer.", hint: error?.hint ?? "", operator: "" };
  return { text, hint: "What was found so far is kept. Ask for less at once.", operator: `${sentence(error.message)} ${sentence(error.hint)}`.trim() };
}
