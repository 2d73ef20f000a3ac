import { useMemo } from "react";

import type { AppInfo } from "../api/client.ts";
import { useActions, useChat } from "./use-chat.ts";

/** Suggested next questions as buttons, where anything may be asked. */
export function Next({ questions }: { questions: readonly string[] }) {
  const chat = useActions();
  const live = useChat((s) => s.opened.phase === "live");
  if (questions.length === 0 || !live) return null;
  return (
    <ul aria-label="Ask next" className="flex flex-wrap gap-2">
      {questions.map((text) => (
        <li key={text} className="max-w-full">
          <button
            type="button"
            onClick={() => void chat.send(text)}
            className="reach max-w-full rounded-2xl [@media(pointer:coarse)]:min-h-9 border border-accent/50 px-3.5 py-1.5 text-left text-sm leading-5 wrap-anywhere hover:border-accent hover:bg-hover"
          >
            {text}
          </button>
        </li>
      ))}
    </ul>
  );
}

/**
 * The app's own follow-up questions, shown below an answer that proposes none itself. They only
 * make sense after the app's examples and after one another, not after arbitrary questions.
 */
export function FollowUps({ after }: { after: string }) {
  const app = useChat((s) => s.app);
  const exchanges = useChat((s) => s.opened.exchanges);
  const questions = useMemo(() => following(app, exchanges.map((x) => x.question), after), [app, exchanges, after]);
  return <Next questions={questions} />;
}

export function following(app: Pick<AppInfo, "examples" | "follow_ups"> | undefined, asked: readonly string[], after: string): string[] {
  const offered = app?.follow_ups ?? [];
  if (!app?.examples.includes(after) && !offered.includes(after)) return [];
  return offered.filter((q) => !asked.includes(q)).slice(0, 3);
}
