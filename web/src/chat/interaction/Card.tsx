import { useEffect, useId, useRef, useState, type ReactNode, type RefObject } from "react";

import { toApiError } from "../../api/client.ts";
import type { Answer, InteractionKind } from "../../api/types.gen.ts";
import { outcomeOf, whoOf } from "../../session/outcome.ts";
import { isWaiting, type Asked } from "../../session/records.ts";
import { labelOf as agentOf } from "../../session/team.ts";
import { Alert, Bolt, Check, Close, Hand, Help } from "../../ui/icons.tsx";
import { LongText } from "../../ui/long-text.tsx";
import { Markdown } from "../../ui/markdown.tsx";
import { oneLine, tame } from "../../ui/tame.ts";
import { ago, sentence } from "../../ui/text.ts";
import { useNow } from "../../ui/use-now.ts";
import { Decide } from "./Decide.tsx";
import { Fields } from "./Fields.tsx";
import { foreseenIn } from "./foresee.ts";
import { failed, fieldsOf, idle, kindOf, labelOf, lateNotice, leftOf, pageOf, type Sending } from "./logic.ts";
import { Questions } from "./Questions.tsx";
import { cardID, reveal } from "./reveal.ts";
import { Secrets } from "./Secrets.tsx";

interface Props {
  asked: Asked;
  /** Other known facts about the call. */
  facts?: readonly string[];
  /** It is shown within its turn: URLs lead there. */
  inPlace?: boolean;
  /** Rejects with an ApiError. Credentials are kept nowhere. */
  onAnswer(answer: Answer, credentials?: Record<string, string>): Promise<void>;
}

/**
 * A question to a human. It shows as answered only when the log says so. Until then the answer
 * is on its way; if another answer was first, the card says so.
 */
export function Card({ asked, facts = [], inPlace = false, onAnswer }: Props) {
  const [sending, setSending] = useState<Sending>(idle);
  const box = useRef<HTMLElement>(null);
  const name = useId();
  const i = asked.interaction;
  const waiting = isWaiting(asked);

  useEffect(() => {
    if (box.current && inPlace) reveal(box.current, i.id);
  }, [i.id, inPlace]);

  // The buttons disappear with the answer and would lose the focus.
  const answered = sending.state !== "idle";
  useEffect(() => {
    if (!waiting && answered && (document.activeElement === null || document.activeElement === document.body)) {
      box.current?.focus({ preventScroll: true });
    }
  }, [waiting, answered]);

  const answer = async (a: Answer, credentials?: Record<string, string>) => {
    setSending({ state: "sending", answer: a });
    try {
      await onAnswer(a, credentials);
      setSending({ state: "sent", answer: a });
    } catch (cause) {
      setSending(failed(a, toApiError(cause)));
    }
  };

  if (!waiting) return <Closed asked={asked} notice={lateNotice(sending, asked)} boxRef={box} />;
  const busy = sending.state === "sending" || sending.state === "sent";
  const agent = agentOf(i.agent);
  const page = pageOf(i.url);
  // The address is below the link. Other clients find it at the end of the text.
  const foreseen = foreseenIn(i);
  const reason = foreseen?.kind === "post" ? foreseen.post.reason : foreseen?.reason;
  const text = reason !== undefined ? reason : page && i.text?.endsWith(`\n${i.url}`) ? i.text.slice(0, -`\n${i.url}`.length) : i.text;
  const previewed = text?.includes("\n\n"); // what a call would change or send is below the reason, and is shown as it is
  const isPlan = i.kind === "question" && i.tool === "ExitPlanMode"; // the agent wrote it, as it writes messages
  return (
    <section
      ref={box}
      {...(inPlace && { id: cardID(i.id) })}
      tabIndex={-1}
      aria-labelledby={name}
      aria-busy={busy}
      data-interaction={i.kind}
      className={`flex flex-col gap-3 rounded-xl border bg-surface px-4 pt-3 pb-4 text-sm ${i.kind === "client" ? "border-border" : "border-accent/60"}`}
    >
      <header className="flex flex-col gap-0.5">
        <div className="flex flex-wrap items-center gap-x-1.5 text-xs leading-5 text-text-muted">
          <span className="text-link">{<Sign kind={i.kind} />}</span>
          <span className="font-medium text-link">{kindOf(i.kind)}</span>
          {agent !== "" && <Further>{agent}</Further>}
          {i.tool && i.kind !== "question" && !i.detail && !i.title.includes(i.tool) && <Further><code>{i.tool}</code></Further>}
          <TimeLeft expiresAt={i.expires_at} />
        </div>
        <h3 id={name} className="text-base leading-6 font-semibold wrap-anywhere">
          {oneLine(i.title, 500)}
        </h3>
        {i.kind === "client" && <p className="text-text-muted">A client that can run it will claim it. You need not do anything.</p>}
        {text && isPlan && (
          <div className="mt-1 max-h-[60vh] overflow-y-auto rounded-lg border border-border bg-bg px-3 py-2" tabIndex={0} role="region" aria-label="The plan">
            <Markdown text={text} />
          </div>
        )}
        {text && !isPlan && (
          <p className="wrap-anywhere whitespace-pre-wrap text-text-muted">
            <LongText text={tame(previewed ? text : sentence(text))} />
          </p>
        )}
        {facts.map((f) => (
          <p key={f} className="text-text-muted">
            {f}
          </p>
        ))}
        {page && (
          <p className="pt-1">
            <a href={page.href} target="_blank" rel="noopener noreferrer" className="reach font-medium text-link underline wrap-anywhere">
              Open the page of {page.host}
            </a>
            {/* The whole address can be read before it is opened, as MCP requires of clients. */}
            <span className="mt-1 block font-mono text-xs leading-5 text-text-muted wrap-anywhere">{page.href}</span>
          </p>
        )}
      </header>
      {i.kind === "question" && (i.questions?.length ?? 0) > 0 ? (
        <Questions interaction={i} busy={busy} onAnswer={(a) => void answer(a)} />
      ) : i.kind === "credential" && (i.credentials?.length ?? 0) > 0 ? (
        <Secrets interaction={i} busy={busy} onAnswer={(given) => void answer({ choice: given ? "answered" : "deny" }, given)} />
      ) : (
        <Decide interaction={i} busy={busy} refused={sending.state === "refused" ? sending : undefined} onAnswer={(a) => void answer(a)} />
      )}
      <div role="status" className="empty:hidden">
        {busy && <p className="text-text-muted">{sending.state === "sent" ? "Answered" : "Sending"}: {labelOf(i, sending.answer.choice)}…</p>}
        {sending.state === "late" && (
          <p>
            Your answer came too late. <span className="text-text-muted">{sentence(sending.message)} {sentence(sending.hint)}</span>
          </p>
        )}
        {sending.state === "refused" && sending.field !== "input" && (
          <p className="flex gap-2 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            <span className="mt-0.5 text-danger">
              <Alert size={14} />
            </span>
            <span className="min-w-0 wrap-anywhere">
              {sentence(sending.message)} <span className="text-text-muted">{sentence(sending.hint)}</span>
            </span>
          </p>
        )}
      </div>
    </section>
  );
}

function Sign({ kind }: { kind: InteractionKind }) {
  if (kind === "unknown") return <Alert size={14} />;
  if (kind === "question") return <Help size={14} />;
  return kind === "client" ? <Bolt size={14} /> : <Hand size={14} />;
}

/** What else the first line of a card says, after a point. */
function Further({ children }: { children: ReactNode }) {
  return (
    <span>
      <span className="mr-1.5">·</span>
      {children}
    </span>
  );
}

function TimeLeft({ expiresAt }: { expiresAt: string | undefined }) {
  const at = Date.parse(expiresAt ?? "");
  const now = useNow(Number.isNaN(at) ? 0 : at - Date.now() < 310_000 ? 1000 : 30_000);
  const left = leftOf(expiresAt, now);
  if (left.text === "") return null;
  return (
    <time
      dateTime={expiresAt}
      title={new Date(at).toLocaleString()}
      className={`ml-auto tabular-nums ${left.soon ? "text-danger" : ""}`}
    >
      {left.text}
    </time>
  );
}

/** A closed interaction: one line, and the answer. */
function Closed({ asked: a, notice, boxRef }: { asked: Asked; notice: string; boxRef: RefObject<HTMLElement | null> }) {
  const denied = a.expired !== undefined || a.answer?.choice === "deny";
  const who = whoOf(a);
  const now = useNow(60_000);
  const fields = a.answer?.input === undefined ? [] : fieldsOf(a.answer.input);
  return (
    <section
      ref={boxRef}
      id={cardID(a.interaction.id)}
      tabIndex={-1}
      aria-label={`${kindOf(a.interaction.kind)}: ${outcomeOf(a)}`}
      data-interaction={a.interaction.kind}
      className="flex flex-col gap-1.5 rounded-xl border border-border px-4 py-2.5 text-sm"
    >
      <div className="flex gap-2.5">
        <span className={`mt-0.5 ${denied ? "text-text-muted" : "text-link"}`}>{denied ? <Close size={16} /> : <Check size={16} />}</span>
        <p className="min-w-0 wrap-anywhere">
          <span className="font-medium">{outcomeOf(a)}</span>
          <span className="text-text-muted">
            {" · "}
            {oneLine(a.interaction.title, 500)}
            {who && ` · ${who}`}
            {a.closedAt && ` · ${ago(a.closedAt, now)}`}
          </span>
        </p>
      </div>
      {a.expired !== undefined && !a.expired.toLowerCase().startsWith(outcomeOf(a).toLowerCase()) && <p className="pl-6.5 text-text-muted">{sentence(a.expired)}</p>}
      {a.answer?.text && <p className="pl-6.5 wrap-anywhere whitespace-pre-wrap">“<LongText text={tame(a.answer.text)} />”</p>}
      {a.answer?.answers && (
        <dl className="pl-6.5">
          {Object.entries(a.answer.answers).map(([question, answer]) => (
            <div key={question} className="wrap-anywhere">
              {question !== a.interaction.title && <dt className="inline text-text-muted">{question} </dt>}
              <dd className="inline">{answer}</dd>
            </div>
          ))}
        </dl>
      )}
      {fields.length > 0 && <Fields fields={fields} />}
      {notice && (
        <p role="status" className="pl-6.5 text-link">
          {notice}
        </p>
      )}
    </section>
  );
}
