import { useMemo } from "react";

import { isOpen } from "../../session/exchange.ts";
import { axisOf, isWait, labelled, placeOf, ticksOf, waterfallOf, type Bar, type BarKind, type Mark, type Stretch, type Tick } from "../../session/waterfall.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { count, dollars, sentence, took } from "../../ui/text.ts";
import { useMedia } from "../../ui/use-media.ts";
import { useNow } from "../../ui/use-now.ts";
import { modelName } from "../facts.ts";
import { useChat } from "../use-chat.ts";
import { Why } from "./Why.tsx";
import type { Words } from "./words.ts";

const colors: Record<BarKind, string> = {
  model: "bg-accent",
  tool: "bg-tool",
  wait: "bg-text-muted/50",
  offer: "bg-text-muted/50",
  queue: "bg-text-muted/30",
  down: "bg-danger/60",
};

const kinds: Record<BarKind, string> = { model: "Model", tool: "Tools", wait: "Waiting for people", offer: "Waiting for clients", queue: "Queued", down: "Interrupted" };

/** A turn over time, drawn only from its log. */
export default function Timeline({ turn, words, onClose }: { turn: string; words: Words; onClose(): void }) {
  const events = useChat((s) => s.opened.records.events.get(turn));
  const x = useChat((s) => s.opened.exchanges.find((x) => x.id === turn));
  const now = useNow(x && isOpen(x.standing) ? 1000 : 0);
  const w = useMemo(() => waterfallOf(events ?? [], now), [events, now]);
  const room = useMedia("(width < 40rem)") ? 0.25 : 0.1; // what a time on the axis takes of its width
  if (!w) return null;
  const axis = axisOf(w);
  const sums = sumsOf(w.bars);
  const tokens = w.bars.reduce((n, b) => n + tokensOf(b), 0);
  const usd = w.bars.reduce((n, b) => n + (b.usage?.usd ?? 0), 0);
  return (
    <Dialog wide title="Timeline" onClose={onClose}>
      {x && <Why exchange={x} events={events ?? []} />}
      {x?.cutSteps && <p className="mb-3 text-sm text-text-muted">Its first steps are not read yet: “Earlier steps” in the conversation reads them.</p>}
      <dl className="mb-5 flex flex-wrap gap-x-7 gap-y-2 max-sm:gap-x-4 text-sm">
        <Sum name="Took" value={took(w.to - w.from)} />
        {sums.map(([kind, ms]) => (
          <Sum key={kind} name={kinds[kind]} value={took(ms)} color={colors[kind]} />
        ))}
        <Sum name="Tokens" value={count(tokens)} />
        <Sum name="Cost" value={dollars(usd)} />
      </dl>
      <div className="relative">
        <Grid axis={axis} ticks={labelled(ticksOf(w, axis), room, (ms) => (ms === 0 ? "0" : took(ms)))} marks={w.marks} room={room} />
        <ol className="relative flex flex-col pt-7">
          {w.bars.map((b, i) => (
            <Row key={b.key} bar={b} axis={axis} words={words} agent={b.agent !== w.bars[i - 1]?.agent ? b.agent : ""} />
          ))}
        </ol>
      </div>
      {w.marks.length > 0 && (
        <ol aria-label="Handoffs, messages and hooks" className="mt-4 flex flex-col gap-1 text-xs text-text-muted">
          {w.marks.map((m, i) => (
            <li key={i}>
              <span className="tabular-nums">+{took(m.at - w.from)}</span> {m.text}
            </li>
          ))}
        </ol>
      )}
    </Dialog>
  );
}

function Sum({ name, value, color }: { name: string; value: string; color?: string }) {
  return (
    <div>
      <dt className="flex items-center gap-1.5 text-xs text-text-muted">
        {color && <span className={`size-2 rounded-sm ${color}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd className="tabular-nums">{value}</dd>
    </div>
  );
}

const label = "w-[38%] shrink-0 pr-3";

/** The times behind the rows; shortened stretches are hatched. */
function Grid({ axis, ticks, marks, room }: { axis: readonly Stretch[]; ticks: readonly Tick[]; marks: readonly Mark[]; room: number }) {
  return (
    <div aria-hidden="true" className="absolute inset-0 flex">
      <div className={label} />
      <div className="relative min-w-0 flex-1">
        {axis.map(
          (s) =>
            s.squeezed && (
              <div
                key={s.from}
                title={`${took(s.to - s.from)}, shortened`}
                className="hatched absolute inset-y-0"
                style={{ left: `${s.left * 100}%`, width: `${(s.right - s.left) * 100}%` }}
              >
                {s.right - s.left >= 0.8 * room && <span className="absolute inset-x-0 top-0 truncate bg-bg text-center text-[11px] text-text-muted">{took(s.to - s.from)}</span>}
              </div>
            ),
        )}
        {ticks.map((t) => (
          <div key={t.ms} className="absolute inset-y-0 border-l border-border" style={{ left: `${t.left * 100}%` }}>
            {t.label && <span className={`absolute top-0 z-1 bg-bg ${t.label === "before" ? "right-1" : "left-1"} text-[11px] whitespace-nowrap text-text-muted tabular-nums`}>{t.text}</span>}
          </div>
        ))}
        {marks.map((m, i) => (
          <div key={i} title={m.text} className="absolute top-5 bottom-0 border-l border-dashed border-link" style={{ left: `${placeOf(axis, m.at) * 100}%` }} />
        ))}
      </div>
    </div>
  );
}

function Row({ bar: b, axis, words, agent }: { bar: Bar; axis: readonly Stretch[]; words: Words; agent: string }) {
  const left = placeOf(axis, b.from);
  const right = placeOf(axis, b.to);
  return (
    <li data-bar={b.kind} className="flex items-center py-1 text-[13px] leading-5">
      <div className={`${label} min-w-0`}>
        {agent !== "" && <div className="pt-1 text-[11px] font-semibold tracking-widest text-link uppercase">{agent}</div>}
        <div className="line-clamp-2 wrap-anywhere" title={b.label}>
          {sayOf(b, words)}
        </div>
        <div className={`text-xs wrap-anywhere ${b.failed ? "text-danger" : "text-text-muted"}`}>{factsOf(b)}</div>
      </div>
      <div className="relative h-5 min-w-0 flex-1">
        <div
          className={`absolute inset-y-0.5 min-w-[3px] rounded-sm ${b.failed && b.kind !== "down" ? "bg-danger" : colors[b.kind]} ${b.open ? "animate-pulse-soft" : ""}`}
          style={{ left: `${left * 100}%`, width: `${(right - left) * 100}%` }}
        />
        {b.ttftMs !== undefined && b.ttftMs > 0 && !b.failed && (
          // The time to the first word.
          <div className="absolute inset-y-0.5 rounded-l-sm bg-black/25" style={{ left: `${left * 100}%`, width: `${Math.min(right - left, placeOf(axis, b.from + b.ttftMs) - left) * 100}%` }} />
        )}
      </div>
    </li>
  );
}

/** What happened in it, in words. Its label is the name in the log. */
export function sayOf(b: Bar, words: Words): string {
  if (b.kind === "tool") return words.call(b.label, b.input);
  return b.kind === "model" ? "Thinks" : sentence(words.text(b.label)).replace(/\.$/, "");
}

export function factsOf(b: Bar): string {
  const model = b.kind === "model" ? modelName(b.label) : "";
  const facts = [...(model ? [model] : []), b.open ? `${took(b.to - b.from)} up to now` : took(b.to - b.from)];
  const tokens = tokensOf(b);
  if (tokens > 0) facts.push(`${count(tokens)} tokens`);
  if (b.usage?.usd) facts.push(dollars(b.usage.usd));
  if (b.attempt > 1) facts.push(`attempt ${b.attempt}`);
  if (b.retried) facts.push("tried again");
  if (b.note !== "" && (b.failed || isWait(b.kind))) facts.push(b.note);
  return facts.join(" · ");
}

const tokensOf = (b: Bar): number => (b.usage ? b.usage.input_tokens + b.usage.output_tokens + (b.usage.cache_read_tokens ?? 0) + (b.usage.cache_write_tokens ?? 0) : 0);

/** The total time of each kind; parallel work counts once. */
function sumsOf(bars: readonly Bar[]): [BarKind, number][] {
  const sums: [BarKind, number][] = [];
  for (const kind of ["model", "tool", "wait", "offer", "queue", "down"] as const) {
    let ms = 0;
    let at = -Infinity;
    for (const b of bars.filter((b) => b.kind === kind).sort((a, b) => a.from - b.from)) {
      ms += Math.max(0, b.to - Math.max(b.from, at));
      at = Math.max(at, b.to);
    }
    if (bars.some((b) => b.kind === kind)) sums.push([kind, ms]);
  }
  return sums;
}
