import { memo, useId, useMemo, useRef } from "react";

import type { Event, FileSaved, StepView } from "../api/types.gen.ts";
import { groupSteps, lineOf } from "../session/exchange.ts";
import { changed } from "../session/changes.ts";
import { isSub } from "../session/team.ts";
import { Chevron } from "../ui/icons.tsx";
import { Folded } from "../ui/long-text.tsx";
import { useFold } from "../ui/use-fold.ts";
import { ChangeBox, ChangedFiles } from "./changes/Changed.tsx";
import { useEarlier } from "./turn/EarlierSteps.tsx";
import { TimelineButton } from "./turn/TimelineButton.tsx";
import { useChat } from "./use-chat.ts";

interface Props {
  steps: readonly StepView[];
  /** By tool call that has not ended: what the tool reported last. */
  progress: ReadonlyMap<string, string> | undefined;
  /** The agents are working, and there is no answer yet. */
  running: boolean;
  stopping: boolean;
  /** The exchange it belongs to. */
  exchange: string;
  /** There are earlier steps, which are not read. */
  cut?: boolean | undefined;
  /** Whether it is open until somebody opens or closes it. */
  opened: boolean;
}

/** Longer results are folded, with a button to show everything. */
const longest = 320;

/**
 * The work of the agents before the answer, besides that of sub-agents (Team). It is open while they work and folded when the
 * answer is there; once a reader opens or closes it, it stays that way.
 */
export const ThoughtProcess = memo(function ThoughtProcess({ steps: all, progress, running, stopping, exchange, cut, opened }: Props) {
  const [open, setOpen] = useFold(exchange, opened);
  const name = useId();
  const steps = useMemo(() => all.filter((s) => !isSub(s.agent)), [all]);
  const events = useChat((s) => s.opened.records.events.get(exchange));
  const saved = useMemo(() => savedIn(events ?? []), [events]);
  const list = useRef<HTMLDivElement>(null);
  const { shown, button } = useEarlier(exchange, steps, cut, list);
  const groups = useMemo(() => groupSteps(open ? shown : steps), [open, shown, steps]);
  const calls = steps.filter((s) => s.type === "tool_call").length;
  const agents = new Set(groups.map((g) => g.agent)).size;
  return (
    <section aria-label="Thought process" className="border-l-2 border-accent bg-surface font-mono text-[13px] leading-5 text-text-muted">
      <div className="flex items-center">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={name}
        onClick={() => setOpen(!open)}
        className="flex min-w-0 flex-1 items-center gap-2 px-4 py-3 text-left hover:text-text-primary"
      >
        <span className={`transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={14} />
        </span>
        <span className={`shrink-0 ${running ? "animate-pulse-soft" : ""}`}>{running ? (stopping ? "Stopping…" : "Thinking…") : open ? "Thought process" : "Thought process:"}</span>
        {!open && (
          <span className="truncate">
            {plural(agents, "agent")}
            {calls > 0 && ` · ${cut ? "more than " : ""}${plural(calls, "tool call")}`}
          </span>
        )}
      </button>
      <TimelineButton turn={exchange} />
      </div>
      <div id={name} hidden={!open} className="px-4 pb-3">
        {open && button}
        <div ref={list}>
        {open && groups.map((g, i) => (
          <div key={i} className={i > 0 ? "mt-3" : ""}>
            {g.agent !== "" && <h3 className="text-[11px] leading-5 font-semibold tracking-widest text-link uppercase">{g.agent}</h3>}
            <ul>
              {g.steps.map((s) => (
                <li key={`${s.seq}.${s.type}`} className="wrap-anywhere whitespace-pre-wrap">
                  <Folded text={lineOf(s)} longest={longest} />
                  {saved.has(s.seq) && (
                    <ChangeBox>
                      <ChangedFiles files={saved.get(s.seq)?.map(changed) ?? []} />
                    </ChangeBox>
                  )}
                  {s.type === "tool_call" && progress?.has(s.call ?? "") && (
                    <span data-progress className="block pl-[2ch]">
                      <Folded text={progress.get(s.call ?? "") ?? ""} longest={longest} />
                    </span>
                  )}
                </li>
              ))}
            </ul>
          </div>
        ))}
        </div>
      </div>
    </section>
  );
});

/** The files that were changed, by the number of the event. */
const savedIn = (events: readonly Event[]): ReadonlyMap<number, readonly FileSaved[]> =>
  new Map(events.flatMap((e) => (e.type === "files.saved" && e.data?.files?.length ? [[e.seq, e.data.files] as const] : [])));

const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;
