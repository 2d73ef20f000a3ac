import { memo, useId, useLayoutEffect, useMemo, useRef, useState } from "react";

import type { Event } from "../../api/types.gen.ts";
import type { Exchange } from "../../session/exchange.ts";
import { changed } from "../../session/changes.ts";
import { stepsOf, type Step, type StepKind } from "../../session/steps.ts";
import { Chevron } from "../../ui/icons.tsx";
import { Folded } from "../../ui/long-text.tsx";
import { useFold } from "../../ui/use-fold.ts";
import { took } from "../../ui/text.ts";
import { ChangeBox, ChangedFiles } from "../changes/Changed.tsx";
import { useChat, useParts } from "../use-chat.ts";
import { TimelineButton } from "./TimelineButton.tsx";
import { useEarlier } from "./EarlierSteps.tsx";
import { useMarked, type Wanted } from "./use-marked.ts";
import { Tasks } from "./Tasks.tsx";
import { tasksOf } from "./tools.ts";
import { foundBy, usePlainWords, type Words } from "./words.ts";

const none: readonly Event[] = [];
const useNothing = () => undefined;

/** Longer texts are folded, with a button to show everything. */
const longest = 280;

const tags: Record<StepKind, string> = {
  agent: "agent",
  plan: "plan",
  tool_call: "does",
  tool_result: "result",
  retrieval: "looked up",
  observed_event: "observed",
  summary: "summary",
  handoff: "handoff",
  ask: "asked",
  answer: "answer",
  offer: "offered",
  change: "changed",
  note: "note",
  error: "error",
};

/**
 * The work before the answer, step by step. It is open while it happens and folded when the
 * answer is there; once a reader opens or closes it, it stays that way.
 */
export const StepLog = memo(function StepLog({ exchange: x, running, opened }: { exchange: Exchange; running: boolean; opened: boolean }) {
  const events = useChat((s) => s.opened.records.events.get(x.id));
  const steps = useMemo(() => stepsOf(events ?? []), [events]);
  const { useWords = usePlainWords, useWanted = useNothing } = useParts();
  const words = useWords(events ?? none);
  const [open, setOpen] = useFold(x.id, opened);
  const name = useId();
  const wanted = useWanted(x.id);
  const wish = wanted?.wish;
  // Runs before scrolling to the wanted text, because hidden text has no position.
  useLayoutEffect(() => {
    if (wish !== undefined) setOpen(true);
  }, [wish]);
  const calls = steps.filter((s) => s.kind === "tool_call").length;
  const list = useRef<HTMLOListElement>(null);
  const { shown, button } = useEarlier(x.id, steps, x.cutSteps, list, wanted && ((s) => s.seq === wanted.seq));
  const begun = Date.parse(steps[0]?.at ?? "");
  return (
    <section aria-label="Steps" className="border-l-2 border-accent bg-surface text-[13px] leading-5 text-text-muted">
      <div className="flex items-center">
        <button
          type="button"
          aria-expanded={open}
          aria-controls={name}
          onClick={() => setOpen(!open)}
          className="flex min-w-0 flex-1 items-center gap-2 px-4 py-3 text-left font-mono hover:text-text-primary"
        >
          <span className={`transition-transform ${open ? "rotate-90" : ""}`}>
            <Chevron size={14} />
          </span>
          <span className={`shrink-0 ${running ? "animate-pulse-soft" : ""}`}>{running ? (x.stopping ? "Stopping…" : "At work…") : open ? "Steps" : "Steps:"}</span>
          {!open && (
            <span className="truncate">
              {x.cutSteps && "more than "}
              {steps.length}
              {calls > 0 && ` · ${calls} ${calls === 1 ? "tool call" : "tool calls"}`}
            </span>
          )}
        </button>
        <TimelineButton turn={x.id} words={words} />
      </div>
      <div id={name} hidden={!open}>
        {open && (
          <>
            {button && <div className="px-4">{button}</div>}
            <ol ref={list} className="flex flex-col gap-1.5 px-4 pb-3.5">
              {shown.map((s) => (
                <Line key={s.seq} step={s} progress={s.kind === "tool_call" ? x.progress?.get(s.call ?? "") : undefined} words={words} after={Date.parse(s.at) - begun} wanted={wanted?.seq === s.seq ? wanted : undefined} />
              ))}
            </ol>
          </>
        )}
      </div>
    </section>
  );
});

interface LineProps {
  step: Step;
  /** What the tool reported last, while its call runs. */
  progress: string | undefined;
  words: Words;
  after: number;
  wanted: (Wanted & { seq: number }) | undefined;
}

function Line({ step: s, progress, words, after, wanted }: LineProps) {
  const row = useMarked(wanted);
  const needed = wanted !== undefined;
  const bad = s.kind === "error" || (s.outcome !== undefined && s.outcome !== "ok");
  return (
    <li ref={row} data-step={s.kind} {...(needed && { "data-wanted": s.seq })} tabIndex={-1} className="-mx-2 grid scroll-my-16 rounded-md px-2 data-wanted:bg-hover grid-cols-[5.25rem_minmax(0,1fr)_auto] gap-x-2 max-sm:grid-cols-[minmax(0,1fr)_auto]">
      <span className={`font-mono text-[11px] font-semibold tracking-wide uppercase max-sm:order-1 max-sm:col-span-2 ${bad ? "text-danger" : "text-link"}`}>{tags[s.kind]}</span>
      <div className="min-w-0 wrap-anywhere whitespace-pre-wrap max-sm:order-2">
        {s.kind === "agent" && s.agent !== "" && <span className="text-text-primary">{s.agent} </span>}
        {s.kind === "tool_call" && s.tool && (
          <Said text={words.call(s.tool, s.input)} original={`${s.tool} ${JSON.stringify(s.input ?? {}, null, 1).replace(/\n */g, " ")}`} needed={needed} />
        )}
        {s.text && <span className={bad ? "text-danger" : s.kind === "plan" ? "text-text-primary" : ""}>{s.kind === "tool_call" && " "}<Folded text={needed ? s.text : words.text(s.text)} original={s.text} longest={3 * longest} needed={needed} /> </span>}
        {s.detail && (s.kind === "tool_result" ? <Said text={s.text ? "" : words.text(foundBy(s.tool, s.detail))} original={s.detail} needed={needed} /> : <Folded text={needed ? s.detail : words.text(s.detail)} original={s.detail} longest={longest} needed={needed} />)}
        {progress && <span data-progress className="block"><Folded text={progress} longest={longest} /></span>}
        {s.kind === "tool_call" && <Tasks tasks={tasksOf(s.tool ?? "", s.input)} />}
        {s.files && (
          <ChangeBox>
            <ChangedFiles files={s.files.map(changed)} />
          </ChangeBox>
        )}
        {s.snippets && <Said text={s.snippets.map((n) => words.text(n.ref)).join(", ")} original={s.snippets.map((n) => `${n.ref}: ${n.text}`).join("\n")} needed={needed} />}
        {s.tookMs !== undefined && <span> {took(s.tookMs)}</span>}
      </div>
      <span className="text-[11px] tabular-nums max-sm:order-3">{after >= 50 ? `+${took(after)}` : ""}</span>
    </li>
  );
}

/** What was done or found, in words. The original with its ids is shown when a lead points to it or the reader asks for it. */
function Said({ text, original, needed }: { text: string; original: string; needed: boolean }) {
  const [open, setOpen] = useState(needed);
  const [before, setBefore] = useState(needed);
  if (needed !== before) {
    setBefore(needed);
    if (needed) setOpen(true);
  }
  return (
    <>
      {text !== "" && <Folded text={text} longest={longest} />}{" "}
      {original !== text && (
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="reach underline underline-offset-2 hover:text-text-primary">
          {open ? "less" : "details"}
        </button>
      )}
      {open && (
        <div className="my-1 rounded-md border border-border bg-bg px-2.5 py-1.5 font-mono text-xs leading-5">
          <Folded text={original} longest={6 * longest} needed={needed} />
        </div>
      )}
    </>
  );
}
