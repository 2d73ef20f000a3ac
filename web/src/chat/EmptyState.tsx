import { useState } from "react";

import { AppLogo } from "./AppLogo.tsx";
import { useActions, useChat } from "./use-chat.ts";

/** How many questions are offered at first. */
const few = 4;

/** Shown before the first message: what this is, and questions to start with. */
export function EmptyState({ onAsk }: { onAsk(question: string): void }) {
  const { words, client } = useActions();
  const app = useChat((s) => s.app);
  const [all, setAll] = useState(false);
  const examples = app?.examples ?? [];
  return (
    <div className="relative flex min-h-0 flex-1 flex-col overflow-y-auto px-4">
      <div className="m-auto w-full max-w-[640px] py-8">
        {words.greeting === "" && app?.page?.logo && (
          <div className="mb-4">
            <AppLogo app={app} base={client.base} size={48} />
          </div>
        )}
        <h2 dir="auto" className="text-2xl font-semibold tracking-tight wrap-anywhere">
          {words.greeting || app?.title || app?.name || "\u00a0"}
        </h2>
        {/* As tall as a line before the text is known, so that nothing moves when it comes. */}
        <p dir="auto" className="mt-2 min-h-[1.6em] wrap-anywhere text-text-muted">
          {app?.description ?? ""}
        </p>
        <ul className="mt-5 grid min-h-29 content-start gap-2">
          {(all ? examples : examples.slice(0, few)).map((question) => (
            <li key={question}>
              <button
                type="button"
                onClick={() => onAsk(question)}
                className="w-full rounded-xl border border-border bg-surface px-4 py-3 text-left text-[15px] leading-6 wrap-anywhere transition-colors hover:border-accent/60 hover:bg-hover"
              >
                {question}
              </button>
            </li>
          ))}
        </ul>
        {!all && examples.length > few && (
          <button type="button" onClick={() => setAll(true)} className="mt-2 inline-flex min-h-8 items-center px-1 text-sm text-text-muted underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
            {examples.length - few} more
          </button>
        )}
      </div>
    </div>
  );
}
