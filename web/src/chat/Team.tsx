import { memo, useId, useMemo } from "react";

import type { Event } from "../api/types.gen.ts";
import { isOpen, queryOf, type Exchange } from "../session/exchange.ts";
import { everyone, teamOf, type Member, type MemberCall, type MemberState } from "../session/team.ts";
import { Chevron } from "../ui/icons.tsx";
import { Folded } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { count, dollars } from "../ui/text.ts";
import { useFold } from "../ui/use-fold.ts";
import { showCard } from "./interaction/reveal.ts";
import { useChat } from "./use-chat.ts";

/** Longer results are folded, with a button to show everything. */
const longest = 280;

const stateWords: Record<MemberState, string> = { working: "at work", asks: "asks you", offers: "waits for a client", done: "done", failed: "failed", stopped: "stopped" };
const stateColors: Record<MemberState, string> = { working: "text-text-primary animate-pulse-soft", asks: "text-link font-semibold", offers: "text-text-primary", done: "", failed: "text-danger", stopped: "" };

/** The agents that work for the one that answers, as a tree: how far each is, what it did, asks and cost. Nothing for a turn of one agent. */
export function Team({ exchange: x }: { exchange: Exchange }) {
  const events = useChat((s) => s.opened.records.events.get(x.id));
  return events ? <Tree events={events} turn={x.id} open={isOpen(x.standing)} /> : null;
}

/** The tree, from the events of its turn. */
export const Tree = memo(function Tree({ events, turn, open: running }: { events: readonly Event[]; turn: string; open: boolean }) {
  const team = useMemo(() => teamOf(events, running), [events, running]);
  const [open, setOpen] = useFold(`${turn} team`, running);
  const name = useId();
  const all = everyone(team);
  if (all.length === 0) return null;
  const asks = all.filter((m) => m.state === "asks").length;
  const works = all.filter((m) => m.state === "working").length;
  const tokens = all.reduce((n, m) => n + m.tokens, 0);
  return (
    <section aria-label="Agents at work for this answer" className="border-l-2 border-tool bg-surface text-[13px] leading-5 text-text-muted">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={name}
        onClick={() => setOpen(!open)}
        className="flex w-full items-start gap-2 px-4 py-3 text-left font-mono hover:text-text-primary"
      >
        <span className={`mt-[3px] transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={14} />
        </span>
        {/* What does not fit goes to the next line as a whole, without the dot before it. */}
        <span className="min-w-0 flex-1">
          <span className="inline-block">{`${all.length} ${all.length === 1 ? "agent" : "agents"} ${running ? "help" : "helped"}`}</span>
          {works > 0 && <> · <span className="inline-block">{works} at work</span></>}
          {asks > 0 && <> · <span className="inline-block text-link">{asks} {asks === 1 ? "asks" : "ask"} you</span></>}
          {tokens > 0 && <> · <span className="inline-block tabular-nums">{count(tokens)} tokens</span></>}
        </span>
      </button>
      <div id={name} hidden={!open} className="px-2 pb-3 sm:px-4">
        <Branch members={team} turn={turn} running={running} />
      </div>
    </section>
  );
});

function Branch({ members, turn, running }: { members: readonly Member[]; turn: string; running: boolean }) {
  return (
    <ul className="flex flex-col gap-1">
      {members.map((m) => (
        <Node key={m.path} member={m} turn={turn} running={running} />
      ))}
    </ul>
  );
}

function Node({ member: m, turn, running }: { member: Member; turn: string; running: boolean }) {
  const [open, setOpen] = useFold(`${turn} ${m.path}`, running || m.state === "failed");
  const name = useId();
  return (
    <li data-agent={m.path} data-state={m.state}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={name}
        title={m.path}
        onClick={() => setOpen(!open)}
        className="flex w-full items-baseline gap-2 rounded-md px-2 py-1 text-left hover:bg-hover [@media(pointer:coarse)]:py-3"
      >
        <span className={`shrink-0 self-center transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={12} />
        </span>
        <span className="shrink-0 font-mono text-[11px] font-semibold tracking-widest text-link uppercase">{m.label}</span>
        <span className="min-w-0 flex-1 truncate text-text-primary">{tame(m.title)}</span>
        <span className={`shrink-0 ${stateColors[m.state]}`}>{stateWords[m.state]}</span>
      </button>
      <div id={name} hidden={!open} className="ml-3.5 border-l border-border pl-3">
        <p className="text-xs tabular-nums">{costOf(m)}</p>
        {m.questions.map((q) => (
          <button key={q.id} type="button" onClick={() => showCard(q.id)} className="reach block text-left wrap-anywhere text-link underline underline-offset-2">
            {tame(q.title)}
          </button>
        ))}
        {m.calls.length > 0 && (
          <ul className="font-mono text-xs leading-5">
            {m.calls.map((c) => (
              <Call key={c.call} call={c} />
            ))}
          </ul>
        )}
        {m.result !== "" && (
          <p className={`wrap-anywhere whitespace-pre-wrap ${m.state === "failed" ? "text-danger" : "text-text-primary"}`}>
            <span className="text-text-muted">{m.state === "failed" ? "Failed: " : "Returned: "}</span>
            <Folded text={tame(m.result)} longest={longest} />
          </p>
        )}
        {m.members.length > 0 && <Branch members={m.members} turn={turn} running={running} />}
      </div>
    </li>
  );
}

function Call({ call: c }: { call: MemberCall }) {
  const bad = c.outcome !== undefined && c.outcome !== "ok";
  const query = c.input === undefined ? "" : queryOf(c.input);
  return (
    <li className="wrap-anywhere whitespace-pre-wrap">
      <Folded text={tame(`→ ${c.tool}(${query})`)} longest={longest} />
      {c.outcome === undefined ? (
        <span className="animate-pulse-soft"> …</span>
      ) : (
        <span className={`block ${bad ? "text-danger" : ""}`}>
          <Folded text={tame(`← ${bad ? c.outcome : "result"}: ${c.text}`)} longest={longest} />
        </span>
      )}
    </li>
  );
}

function costOf(m: Member): string {
  const facts = m.background ? ["in the background"] : [];
  if (m.tokens > 0) facts.push(`${count(m.tokens)} tokens`);
  if (m.usd > 0) facts.push(dollars(m.usd));
  return facts.join(" · ");
}
