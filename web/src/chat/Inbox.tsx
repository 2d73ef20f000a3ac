import { useId, useState } from "react";
import { useStore } from "zustand";

import { toApiError, type InteractionRow } from "../api/client.ts";
import type { Answer } from "../api/types.gen.ts";
import { awaitedBy } from "../session/inbox.ts";
import { Dialog } from "../ui/dialog.tsx";
import { oneLine } from "../ui/tame.ts";
import { ago, sentence } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import { addressOf } from "./browser.ts";
import { Card } from "./interaction/Card.tsx";
import { showCard } from "./interaction/reveal.ts";
import { keyOf } from "./state.ts";
import { useApps } from "./use-apps.ts";
import { useActions } from "./use-chat.ts";

/** Everything that waits for an answer, over all sessions. It can be answered here, or where it was asked. */
export default function Inbox({ onClose }: { onClose(): void }) {
  const chat = useActions();
  const { rows, error } = useStore(chat.inbox.store);
  const mine = rows?.filter((r) => awaitedBy(r) === "person") ?? [];
  const offered = rows?.filter((r) => awaitedBy(r) === "client") ?? [];
  const name = useId();
  // A card disappears when it is answered, also by somebody else; a notice takes its place.
  const [late, setLate] = useState<string>();
  const answer = async (r: InteractionRow, a: Answer, credentials?: Record<string, string>) => {
    setLate(undefined);
    try {
      await chat.answer(r.id, a, credentials);
    } catch (cause) {
      const error = toApiError(cause);
      if (error.code === "conflict") setLate(`“${r.title}” was closed before your answer came. ${sentence(error.message)}`);
      throw error;
    }
  };
  return (
    <Dialog side title="Waits for you" onClose={onClose}>
      {error && (
        <p role="alert" className="mb-4 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2 text-sm">
          {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
        </p>
      )}
      {late && (
        <p role="status" className="mb-4 rounded-lg border border-border bg-surface px-3 py-2 text-sm wrap-anywhere">
          {late}
        </p>
      )}
      {rows && mine.length === 0 && <p className="py-8 text-center text-sm text-text-muted">Nothing waits for an answer.</p>}
      <List rows={mine} onAnswer={answer} onClose={onClose} />
      {offered.length > 0 && (
        <section aria-labelledby={name} className="mt-8">
          <h3 id={name} className="text-sm font-semibold">
            Waits for a client
          </h3>
          <p className="mt-0.5 mb-4 text-sm text-text-muted">A program that can run these calls will claim them. You can also let the agent go on without them.</p>
          <List rows={offered} onAnswer={answer} onClose={onClose} />
        </section>
      )}
    </Dialog>
  );
}

function List({ rows, onAnswer, onClose }: { rows: readonly InteractionRow[]; onAnswer(r: InteractionRow, a: Answer, credentials?: Record<string, string>): Promise<void>; onClose(): void }) {
  const chat = useActions();
  const sessions = useStore(chat.inbox.store, (s) => s.sessions);
  const titles = new Map(useApps().map((a) => [a.name, oneLine(a.title, 60)]));
  const now = useNow(60_000);
  return (
    <ul className="flex flex-col gap-5">
      {rows.map((r) => {
        const s = sessions[r.session];
        return (
          <li key={r.id} className="flex flex-col gap-1.5">
            {s && (
              <p className="flex items-baseline gap-2 px-1 text-xs text-text-muted">
                <a
                  href={`${chat.client.base}apps/${encodeURIComponent(s.app)}/${addressOf(keyOf(s), r.id)}`}
                  onClick={() => {
                    onClose();
                    showCard(r.id);
                  }}
                  className="min-w-0 truncate font-medium [@media(pointer:coarse)]:-my-3.5 [@media(pointer:coarse)]:py-3.5 text-text-primary underline underline-offset-2"
                >
                  {oneLine(s.title || s.preview || "", 120) || "Conversation"}
                </a>
                <span className="shrink-0">
                  {titles.get(s.app) || s.app} · {ago(r.opened_at, now)}
                </span>
              </p>
            )}
            <Card asked={{ interaction: r, seq: 0 }} onAnswer={(a, credentials) => onAnswer(r, a, credentials)} />
          </li>
        );
      })}
    </ul>
  );
}
