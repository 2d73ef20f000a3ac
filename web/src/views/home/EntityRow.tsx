import { memo, useEffect, useId, useRef, useState } from "react";

import { putBack } from "../../chat/AgentMessage.tsx";
import { useActions, useChat } from "../../chat/use-chat.ts";
import { CopyButton } from "../../ui/copy.tsx";
import { ago } from "../../ui/text.ts";
import { useMedia } from "../../ui/use-media.ts";
import type { Entity, History } from "./entities.ts";
import { amount, nameIn, rangeOf, stateOf, toneOf } from "./format.ts";
import { Sparkline } from "./Sparkline.tsx";
import { showPanel, useHome, wide } from "./use-home.ts";

interface Props {
  entity: Entity;
  /** The name of its area. */
  area: string;
  history: History | undefined;
  now: number;
  /** When it was requested, or 0. */
  wantedAt: number;
}

const tones = { on: "bg-accent", bad: "bg-danger", off: "bg-text-muted/40" };

/** An entity in one line; opened, its last day. */
export const EntityRow = memo(function EntityRow({ entity: e, area, history, now, wantedAt }: Props) {
  const { entities } = useHome();
  const [open, setOpen] = useState(false);
  const row = useRef<HTMLLIElement>(null);
  const name = useId();
  const tone = toneOf(e);

  // Only visible rows request their history.
  useEffect(() => {
    const r = row.current;
    if (!r || history) return;
    const seen = new IntersectionObserver((entries) => entries.some((x) => x.isIntersecting) && entities.wantHistory(e.entity_id));
    seen.observe(r);
    return () => seen.disconnect();
  }, [entities, e.entity_id, history]);

  useEffect(() => {
    if (wantedAt === 0) return;
    setOpen(true);
    row.current?.querySelector("button")?.focus({ preventScroll: true });
    // Once it has its full height.
    const later = requestAnimationFrame(() => row.current?.scrollIntoView({ block: "center" }));
    return () => cancelAnimationFrame(later);
  }, [wantedAt]);

  return (
    <li ref={row} data-entity={e.entity_id} className={wantedAt > 0 ? "bg-hover" : ""}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={name}
        onClick={() => setOpen(!open)}
        className="flex min-h-9 w-full items-center gap-2.5 px-4 py-1 text-left text-sm leading-5 -outline-offset-2 hover:bg-hover [@media(pointer:coarse)]:min-h-11"
      >
        <span className={`size-1.5 shrink-0 rounded-full ${tones[tone]}`} aria-hidden="true" />
        <span className="min-w-0 flex-1 wrap-anywhere" title={e.name}>
          {nameIn(area, e)}
        </span>
        <span aria-hidden="true" className="h-4 w-12 shrink-0">
          {history && <Sparkline history={history} />}
        </span>
        <span className={`w-20 shrink-0 wrap-anywhere text-right text-[13px] tabular-nums ${tone === "bad" ? "text-danger" : tone === "on" ? "" : "text-text-muted"}`}>
          {stateOf(e, now)}
        </span>
      </button>
      <div id={name} hidden={!open}>
        {open && <Detail entity={e} history={history} now={now} />}
      </div>
    </li>
  );
});

function Detail({ entity: e, history, now }: { entity: Entity; history: History | undefined; now: number }) {
  const chat = useActions();
  const { panel } = useHome();
  const roomy = useMedia(wide);
  const pins = useChat((s) => s.opened.records.pins);
  const pinned = pins.some((p) => p.label === e.entity_id);
  const { low, high } = rangeOf(history?.points ?? []);
  const link = "rounded px-1 underline underline-offset-2 hover:text-text-primary";
  return (
    <div className="flex flex-col gap-1.5 px-4 pt-1 pb-3 pl-8 text-xs text-text-muted">
      {history ? (
        <div className="h-16" role="img" aria-label={`The last 24 hours of ${e.name}`}>
          <Sparkline history={history} tall />
        </div>
      ) : (
        <p>Its history of the last day is not available.</p>
      )}
      {history && (
        <p className="flex justify-between tabular-nums">
          <span>24 h ago</span>
          {low <= high && (
            <span>
              {amount(low)} to {amount(high)} {e.unit}
            </span>
          )}
          <span>now</span>
        </p>
      )}
      <p className="flex items-center gap-1 font-mono">
        <span className="min-w-0 wrap-anywhere">{e.entity_id}</span>
        <CopyButton label={`Copy ${e.entity_id}`} className="size-6!" text={() => e.entity_id} />
      </p>
      <p>
        {[e.device_class?.replaceAll("_", " "), e.last_changed && `changed ${ago(e.last_changed, now)}`].filter(Boolean).join(" · ")}
      </p>
      <p className="-ml-1 flex gap-2">
        <button
          type="button"
          className={link}
          onClick={() => {
            putBack({ text: `What is going on with ${e.entity_id}?`, attached: [] });
            if (!roomy) showPanel(panel, false);
          }}
        >
          Ask about it
        </button>
        <button
          type="button"
          className={link}
          disabled={pinned}
          onClick={() => void chat.setPins([...pins, { label: e.entity_id, text: `${e.name} (${e.entity_id})` }])}
        >
          {pinned ? "Pinned" : "Pin it"}
        </button>
      </p>
    </div>
  );
}
