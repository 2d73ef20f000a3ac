import { useActions, useChat } from "./use-chat.ts";

/** Shown before the first message: what this is, and questions to start with. */
export function EmptyState({ onAsk }: { onAsk(question: string): void }) {
  const { greeting } = useActions().words;
  const app = useChat((s) => s.app);
  return (
    <div className="relative flex min-h-0 flex-1 flex-col overflow-y-auto px-4">
      <div className="m-auto w-full max-w-[640px] py-8">
        <h2 className="text-2xl font-semibold tracking-tight">{greeting}</h2>
        {/* As tall as a line before the text is known, so that nothing moves when it comes. */}
        <p className="mt-2 min-h-[1.6em] text-text-muted">{app?.description ?? ""}</p>
        <ul className="mt-5 grid min-h-29 content-start gap-2">
          {app?.examples.slice(0, 4).map((question) => (
            <li key={question}>
              <button
                type="button"
                onClick={() => onAsk(question)}
                className="w-full rounded-xl border border-border bg-surface px-4 py-3 text-left text-[15px] leading-6 transition-colors hover:border-accent/60 hover:bg-hover"
              >
                {question}
              </button>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
