import { lazy, memo, Suspense, useMemo } from "react";

import type { Event } from "../api/types.gen.ts";
import { isOpen, type Exchange } from "../session/exchange.ts";
import { endedTexts, retryText, sentText, stoppingText, unsettled, writesOf, type Write } from "../session/writes.ts";
import { Boundary } from "../ui/boundary.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { CopyButton } from "../ui/copy.tsx";
import { Alert, Fork, Retry } from "../ui/icons.tsx";
import { LongText } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { sentence, when } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import type { Draft } from "./state.ts";
import { factsOf, sessionFact, spentIn } from "./facts.ts";
import { resultText } from "./DirectCall.tsx";
import { FollowUps } from "./FollowUps.tsx";
import { Changes } from "./changes/Changes.tsx";
import { Team } from "./Team.tsx";
import { Reminded } from "./Told.tsx";
import { troubleOf } from "./trouble.ts";
import { ThoughtProcess } from "./ThoughtProcess.tsx";
import { useActions, useChat, useParts } from "./use-chat.ts";

/** Loaded late: nothing needs it before the first answer, and it is the largest part of the page. */
const loadMarkdown = () => import("../ui/markdown.tsx");
const Markdown = lazy(() => loadMarkdown().then((m) => ({ default: m.Markdown })));
export const prepareAnswers = (): void => void loadMarkdown();

// Loaded late: most conversations ask nothing.
const InteractionCard = lazy(() => import("./interaction/InteractionCard.tsx"));

const noEvents: readonly Event[] = [];

export const AgentMessage = memo(function AgentMessage({ exchange: x, last }: { exchange: Exchange; last: boolean }) {
  const open = isOpen(x.standing);
  const { Steps, Figures, Below } = useParts();
  const waiting = x.standing === "waiting";
  const working = open && !waiting && x.standing !== "resuming";
  const events = useChat((s) => s.opened.records.events.get(x.id)) ?? noEvents;
  const writes = useMemo(() => writesOf(events), [events]);
  const over = useChat((s) => s.opened.phase === "ended" || s.opened.phase === "local"); // it can only be read
  const reminded = useMemo(() => remindedIn(events), [events]);
  return (
    <div className="group/answer flex flex-col gap-4">
      {reminded && <Reminded {...reminded} />}
      <Boundary fallback={<Quiet text="What was done cannot be shown here. It is in the log." />} retry={x.standing}>
        {(x.steps.length > 0 || x.cutSteps) &&
          (Steps ? (
            <Steps exchange={x} running={working && x.answer === ""} opened={open} />
          ) : (
            <ThoughtProcess exchange={x.id} cut={x.cutSteps} steps={x.steps} progress={x.progress} running={working && x.answer === ""} stopping={x.stopping} opened={open} />
          ))}
        <Team exchange={x} />
        {Figures && <Figures exchange={x} />}
        {!open && <Changes turn={x.id} events={events} />}
      </Boundary>
      {waiting && !Steps && <Text exchange={x} working={false} />}
      {x.asked.length > 0 && (
        <Suspense fallback={<div className="h-12" />}>
          {x.asked.map((a) => (
            <Boundary key={a.interaction.id} fallback={<Quiet text="What was asked here cannot be shown. Reload the page, or answer from another client." />}>
              <InteractionCard asked={a} />
            </Boundary>
          ))}
        </Suspense>
      )}
      {!waiting && <Text exchange={x} working={working} />}
      {x.warning && <Doubt text={x.warning} />}
      {Below && !open && (
        <Boundary fallback={null}>
          <Below exchange={x} last={last} />
        </Boundary>
      )}
      {last && x.standing === "completed" && x.answer !== "" && !x.followUps?.length && <FollowUps after={x.question} />}
      {working && x.stopping && <p role="status" className="text-sm text-text-muted wrap-anywhere">{stoppingText(writes)}</p>}
      <Ending exchange={x} last={last && !over} writes={writes} />
      <Footer exchange={x} last={last} over={over} open={open} writes={writes} />
    </div>
  );
});

/** What the turn's runtime was told of the conversation, if it had to be. */
function remindedIn(events: readonly Event[]): { says: string; told: string } | undefined {
  const note = events.findLast((e) => e.type === "runtime.noted" && e.data?.kind === "restored");
  if (note?.type !== "runtime.noted") return undefined;
  const { told } = (note.data.data ?? {}) as { told?: unknown };
  return typeof told === "string" && told !== "" ? { says: note.data.text, told } : undefined;
}

/** The answer. Text before a question to a human is shown above it, or among the steps. */
function Text({ exchange: x, working }: { exchange: Exchange; working: boolean }) {
  const { Around } = useParts();
  if (x.answer === "" && !working) return null;
  const partial = x.standing !== "completed" && x.standing !== "waiting";
  const text = <Markdown text={x.direct ? resultText(x.answer) : x.answer} streaming={working} partial={partial} />;
  return (
    <div className="text-base leading-[1.6] wrap-anywhere text-text-primary" aria-busy={working}>
      {x.answer === "" ? (
        <p className="cursor" />
      ) : (
        <Boundary fallback={<Plain text={x.answer} />} retry={working}>
          <Suspense fallback={<p className="invisible whitespace-pre-wrap">{x.answer.slice(0, 2000)}</p>}>
            {Around ? <Around exchange={x}>{text}</Around> : text}
          </Suspense>
        </Boundary>
      )}
    </div>
  );
}

/** The answer as plain text: used if it cannot be rendered, or if the renderer could not be loaded. */
const Plain = ({ text }: { text: string }) => (
  <p className="plain whitespace-pre-wrap">
    <LongText text={tame(text)} />
  </p>
);

/** Shown below an answer that is missing or incomplete. */
export function Ending({ exchange: x, last, writes }: { exchange: Exchange; last: boolean; writes: readonly Write[] }) {
  const chat = useActions();
  switch (x.standing) {
    case "pending":
      return <Quiet text="Waiting for its turn." />;
    case "cancelled":
      return (
        <>
          <Quiet text={x.answer === "" ? "Stopped before an answer." : "Stopped here."} />
          <Done writes={writes} />
        </>
      );
    case "resuming":
      return <Quiet text="The server stopped in the middle of this answer. It goes on by itself." />;
    case "interrupted": {
      const sent = unsettled(writes);
      const then = !last ? "" : sent.length === 1 ? " Go on finds out what became of it, or asks you." : " Go on finds out what became of them, or asks you.";
      return (
        <Trouble text={`The server stopped in the middle of this answer. ${leftBecause(x.reason)}`.trim()} hint={sent.length > 0 ? sentText(sent) + then : "What was done is kept."}>
          {last && <Button kind="quiet" onClick={() => void chat.resume(x.id)}>Go on</Button>}
          {last && sent.length === 0 && <Button kind="quiet" onClick={() => void chat.retry(x.id)}>Begin again</Button>}
        </Trouble>
      );
    }
    case "unsent":
      return (
        <Trouble text={x.error?.message ?? "The message was not sent."} hint={x.error?.hint} retryAt={x.retryAt}>
          <Button kind="quiet" onClick={() => void chat.sendAgain()}>Send again</Button>
          <Button kind="quiet" onClick={() => putBack(chat.takeBack())}>Edit</Button>
        </Trouble>
      );
    case "failed":
    case "expired":
      return (
        <>
          <Trouble {...troubleOf(x.error, x.reason)} retryAt={last ? x.retryAt : undefined}>
            {last && <Button kind="quiet" onClick={() => void chat.retry(x.id)}>{retryText(writes)}</Button>}
          </Trouble>
          <Done writes={writes} />
        </>
      );
    case "completed":
      if (x.answer === "" || x.cut) return <Quiet text={x.answer === "" ? "There was no text in this answer." : "This answer was cut off."} />;
  }
  return null;
}

/** Why an interrupted turn does not go on by itself: what its reason says besides that the server stopped. */
const leftBecause = (reason = ""): string => sentence(reason.split("; ").slice(1).join("; "));

/** Puts a message into the input, which listens for this event. */
export const putBackEvent = "parley:put-back";
export function putBack(draft: Draft): void {
  dispatchEvent(new CustomEvent(putBackEvent, { detail: draft }));
}

/** The calls with effects of a turn without a complete answer, which nothing else below the question tells of. */
function Done({ writes }: { writes: readonly Write[] }) {
  const texts = endedTexts(writes);
  if (texts.length === 0) return null;
  return (
    <ul aria-label="What was done" className="flex flex-col gap-1 text-sm text-text-muted">
      {texts.map((text, i) => (
        <li key={i} className="wrap-anywhere">{text}</li>
      ))}
    </ul>
  );
}

function Quiet({ text }: { text: string }) {
  return <p className="text-sm text-text-muted">{text}</p>;
}

/** Why an answer may be wrong. */
export function Doubt({ text }: { text: string }) {
  return (
    <p role="note" className="flex gap-2 text-sm text-text-muted">
      <span className="mt-0.5">
        <Alert size={16} />
      </span>
      <span className="min-w-0 wrap-anywhere">{sentence(text)}</span>
    </p>
  );
}

interface TroubleProps {
  text: string;
  hint?: string | undefined;
  operator?: string;
  /** When it may be tried again. */
  retryAt?: number | undefined;
  children: React.ReactNode;
}

function Trouble({ text, hint, operator, retryAt = 0, children }: TroubleProps) {
  return (
    <div role="alert" className="rounded-xl border border-danger/40 bg-danger-surface px-4 py-3 text-sm">
      <div className="flex gap-2.5">
        <span className="mt-0.5 text-danger">
          <Alert size={16} />
        </span>
        <div className="min-w-0 wrap-anywhere">
          {sentence(text)} {hint && <span className="text-text-muted">{sentence(hint)}</span>}
          {retryAt > 0 && <Again at={retryAt} />}
          {operator && (
            <details className="mt-1.5 text-[13px] text-text-muted">
              <summary className="w-fit cursor-pointer hover:text-text-primary [@media(pointer:coarse)]:py-3">For the person who set this limit</summary>
              {operator}
            </details>
          )}
        </div>
      </div>
      <div className="mt-3 flex flex-wrap gap-2 empty:hidden">{children}</div>
    </div>
  );
}

/** When trying again makes sense. */
function Again({ at }: { at: number }) {
  const now = useNow(at - Date.now() < 310_000 ? 1000 : 30_000);
  const left = when(at, now);
  return (
    <time dateTime={new Date(at).toISOString()} title={new Date(at).toLocaleString()} className="mt-1 block tabular-nums">
      {left === "" ? "It can be tried again now." : `It can be tried again ${left}.`}
    </time>
  );
}

/** The actions for an answer, and its cost. Its height is reserved from the start. */
function Footer({ exchange: x, last, over, open, writes }: { exchange: Exchange; last: boolean; over: boolean; open: boolean; writes: readonly Write[] }) {
  const chat = useActions();
  const hidden = last ? "" : "opacity-0 group-focus-within/answer:opacity-100 group-hover/answer:opacity-100 [@media(hover:none)]:opacity-100";
  const usd = useChat((s) => (last ? s.opened.usdBefore + spentIn(s.opened.exchanges) : 0));
  const id = useChat((s) => s.opened.id);
  // Not a message that was kept here and that the server does not have.
  const forkable = useChat((s) => x.endedAt !== undefined && s.opened.records.events.has(x.id));
  const facts = [...factsOf(x), ...(last ? [sessionFact(usd, x)] : [])].filter((f) => f !== "").join(" · ");
  return (
    <div className="-mt-2 -ml-2 flex min-h-8 items-center gap-0.5">
      {!open && (
        <div className={`flex items-center gap-0.5 transition-opacity ${hidden}`}>
          {x.answer !== "" && <CopyButton label="Copy answer" text={() => x.answer} />}
          {last && !over && (x.standing === "completed" || x.standing === "cancelled") && x.endedAt && (
            <IconButton label="Try again" onClick={() => void chat.retry(x.id)}>
              <Retry size={16} />
            </IconButton>
          )}
          {forkable && (
            <IconButton label="Fork from here" title="Fork from here: a new conversation that begins with everything up to this answer" onClick={() => void chat.fork(id, x.id)}>
              <Fork size={16} />
            </IconButton>
          )}
          {last && !over && x.standing === "cancelled" && retryText(writes) !== "Try again" && <span className="text-xs text-text-muted">{retryText(writes)}</span>}
          {facts !== "" && <span className="ml-2 text-xs text-text-muted tabular-nums">{facts}</span>}
        </div>
      )}
    </div>
  );
}
