import { lazy, memo, Suspense, useEffect, useId, useLayoutEffect, useMemo, useState } from "react";
import { useStore } from "zustand";

import type { Snippet } from "../../api/types.gen.ts";
import { useChat } from "../../chat/use-chat.ts";
import { queryOf, type Exchange } from "../../session/exchange.ts";
import { stepsOf, type Step, type StepKind } from "../../session/steps.ts";
import { Bars, Chevron } from "../../ui/icons.tsx";
import { Folded } from "../../ui/long-text.tsx";
import { useFold } from "../../ui/use-fold.ts";
import { took } from "../../ui/text.ts";
import { plainly } from "./plain.ts";
import { useHome, useHouse } from "./use-home.ts";
import { useMarked, type Wanted } from "./use-marked.ts";

const Timeline = lazy(() => import("./Timeline.tsx"));

/** A longer text is folded, with a way to see all of it. */
const longest = 280;

const tags: Record<StepKind, string> = {
  agent: "agent",
  plan: "plan",
  tool_call: "call",
  tool_result: "result",
  retrieval: "looked up",
  observed_event: "observed",
  summary: "summary",
  handoff: "handoff",
  ask: "asked",
  note: "note",
  error: "error",
};

/** What was done before the answer, step by step: open while it happens, folded when the answer is there, and as it was left by who opened or closed it. */
export const StepLog = memo(function StepLog({ exchange: x, running, opened }: { exchange: Exchange; running: boolean; opened: boolean }) {
  const events = useChat((s) => s.opened.records.events.get(x.id));
  const steps = useMemo(() => stepsOf(events ?? []), [events]);
  const [open, setOpen] = useFold(x.id, opened);
  const [timeline, setTimeline] = useState(false);
  const name = useId();
  const { evidence } = useHome();
  const wanted = useStore(evidence, (s) => (s.shown?.kind === "line" && s.shown.turn === x.id ? s.shown : undefined));
  const wish = wanted?.wish;
  // Before what is wanted is looked for: what is hidden has no place.
  useLayoutEffect(() => {
    if (wish !== undefined) setOpen(true);
  }, [wish]);
  const calls = steps.filter((s) => s.kind === "tool_call").length;
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
          <span className={running ? "animate-pulse-soft" : ""}>{running ? "At work…" : "Steps"}</span>
          {!open && (
            <span className="truncate">
              {steps.length} · {calls} tool {calls === 1 ? "call" : "calls"}
            </span>
          )}
        </button>
        <button
          type="button"
          onClick={() => setTimeline(true)}
          className="mr-2 inline-flex h-8 items-center gap-1.5 rounded-lg px-2 font-mono hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:h-10"
        >
          <Bars size={14} />
          Timeline
        </button>
      </div>
      <ol id={name} hidden={!open} className="flex flex-col gap-1.5 px-4 pb-3.5 font-mono">
        {steps.map((s) => (
          <Line key={s.seq} step={s} after={Date.parse(s.at) - begun} wanted={wanted?.seq === s.seq ? wanted : undefined} />
        ))}
      </ol>
      {timeline && (
        <Suspense>
          <Timeline exchange={x} onClose={() => setTimeline(false)} />
        </Suspense>
      )}
    </section>
  );
});

function Line({ step: s, after, wanted }: { step: Step; after: number; wanted: Wanted | undefined }) {
  const row = useMarked(wanted);
  const needed = wanted !== undefined;
  const bad = s.kind === "error" || (s.outcome !== undefined && s.outcome !== "ok");
  return (
    <li ref={row} data-step={s.kind} {...(needed && { "data-wanted": s.seq })} tabIndex={-1} className="-mx-2 grid scroll-my-16 rounded-md px-2 data-wanted:bg-hover grid-cols-[5.25rem_minmax(0,1fr)_auto] gap-x-2 max-sm:grid-cols-[minmax(0,1fr)_auto]">
      <span className={`text-[11px] font-semibold tracking-wide uppercase max-sm:order-1 max-sm:col-span-2 ${bad ? "text-danger" : "text-link"}`}>{tags[s.kind]}</span>
      <div className="min-w-0 wrap-anywhere whitespace-pre-wrap max-sm:order-2">
        {s.kind === "agent" && s.agent !== "" && <span className="text-text-primary">{s.agent} </span>}
        {s.tool && (
          <span className="text-text-primary">
            {s.tool}
            {s.kind === "tool_call" && <span className="text-text-muted">(<Told text={queryOf(s.input)} longest={longest} needed={needed} />)</span>}{" "}
          </span>
        )}
        {s.text && <span className={bad ? "text-danger" : s.kind === "plan" ? "text-text-primary" : ""}><Told text={s.text} longest={3 * longest} needed={needed} /> </span>}
        {s.tookMs !== undefined && <span>{took(s.tookMs)} </span>}
        {s.detail && <Told text={s.detail} longest={longest} needed={needed} />}
        {s.snippets && <Found snippets={s.snippets} needed={needed} />}
      </div>
      <span className="text-[11px] tabular-nums max-sm:order-3">{after >= 50 ? `+${took(after)}` : ""}</span>
    </li>
  );
}

/** What a tool was given or gave, with the names of the house; as it is, with its ids, when it is pointed at or shown whole. */
function Told({ text, longest: most, needed = false }: { text: string; longest: number; needed?: boolean }) {
  const entities = useHouse((h) => h.entities);
  const said = useMemo(() => plainly(text, entities), [text, entities]);
  if (said === text || needed) return <Folded text={text} longest={most} needed={needed} />;
  return (
    <span title={text.slice(0, 1000)}>
      <Folded text={said} original={text} longest={most} />
    </span>
  );
}

/** What was looked up: where it is from, and what it says when asked. */
function Found({ snippets, needed }: { snippets: readonly Snippet[]; needed: boolean }) {
  const [all, setAll] = useState(false);
  useEffect(() => {
    if (needed) setAll(true);
  }, [needed]);
  return (
    <>
      {!all && <Told text={`${snippets.map((n) => n.ref).join(", ")} `} longest={longest} />}
      <button type="button" aria-expanded={all} onClick={() => setAll(!all)} className="underline underline-offset-2 hover:text-text-primary">
        {all ? "show less" : "show all"}
      </button>
      {all && snippets.map((n, i) => <div key={i}>
          {n.ref}: <Folded text={n.text} longest={3 * longest} needed={needed} />
        </div>)}
    </>
  );
}
