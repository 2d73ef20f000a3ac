import { Fragment, Suspense, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { isOpen } from "../session/exchange.ts";
import { Boundary } from "../ui/boundary.tsx";
import { ArrowDown } from "../ui/icons.tsx";
import { useBottom } from "../ui/use-bottom.ts";
import { lazily } from "../ui/lazily.ts";
import { Moved } from "./Moved.tsx";
import { DirectCall } from "./DirectCall.tsx";
import { ForkedHere } from "./Forked.tsx";
import { AgentMessage, prepareAnswers, putBack } from "./AgentMessage.tsx";
import type { Where } from "./rewind/RewindDialog.tsx";
import { between, placeOf } from "./rewind/places.ts";
import { WentBack } from "./rewind/WentBack.tsx";
import type { Opened } from "./state.ts";
import { Continued } from "./Told.tsx";
import { useActions } from "./use-chat.ts";
import { UserMessage } from "./UserMessage.tsx";

// Loaded late: going back is rare.
const RewindDialog = lazily(() => import("./rewind/RewindDialog.tsx"));

/** How many exchanges are drawn at first, and added when the reader scrolls up to them. */
const portion = 30;

export function MessageList({ opened }: { opened: Opened }) {
  const chat = useActions();
  const { exchanges, keys, older } = opened;
  const { box, content, away, beneath, toEnd, onScroll } = useBottom("[data-interaction]");
  const [drawn, setDrawn] = useState(portion);
  const top = useRef<HTMLDivElement>(null);
  const shown = useMemo(() => exchanges.slice(-drawn), [exchanges, drawn]);
  const hidden = exchanges.length > drawn;
  const more = hidden || older === "more";
  const last = exchanges.at(-1);
  const places = useMemo(() => between(opened.rewinds, shown, !more), [opened.rewinds, shown, more]);
  const { forkedAt } = opened.records;
  const forked = useMemo(() => (forkedAt > 0 ? placeOf(forkedAt, shown, !more) : -1), [forkedAt, shown, more]);
  const { moves } = opened.records;
  const moved = useMemo(() => between(moves, shown, !more), [moves, shown, more]);
  const [to, setTo] = useState<{ where: Where; message: string }>();
  const undo = (seq: number) => setTo({ where: { undo: seq }, message: "" });
  const busy = opened.phase !== "live" || opened.rewinding || (last !== undefined && isOpen(last.standing));

  useEffect(prepareAnswers, []);

  // When the beginning of the list comes into view, earlier exchanges are drawn, or read if none
  // are left to draw.
  const earlier = useCallback(() => {
    if (!hidden) void chat.older();
    setDrawn((n) => n + portion);
  }, [chat, hidden]);
  useEffect(() => {
    const t = top.current;
    if (!t || !more) return;
    const seen = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && earlier(), {
      root: box.current,
      rootMargin: "600px 0px 0px",
    });
    seen.observe(t);
    return () => seen.disconnect();
  }, [more, earlier, box, shown.length]);

  // The visible exchanges stay in place when others are added before them: their position is
  // measured before drawing.
  const first = shown[0]?.id;
  const firstBefore = useRef(first);
  const anchor = useRef<{ element: Element; top: number }>(undefined);
  if (first !== firstBefore.current) {
    const element = content.current?.querySelector("article");
    anchor.current = element ? { element, top: element.getBoundingClientRect().top } : undefined;
    firstBefore.current = first;
  }
  useLayoutEffect(() => {
    const was = anchor.current;
    if (was?.element.isConnected) box.current?.scrollBy({ top: was.element.getBoundingClientRect().top - was.top, behavior: "instant" });
    anchor.current = undefined;
  }, [first, box]);

  // One's own message is always scrolled into view.
  const sending = last?.standing === "sending" ? last.id : undefined;
  useLayoutEffect(() => toEnd(), [sending, toEnd]);

  return (
    <div className="relative min-h-0 flex-1">
      <div
        ref={box}
        onScroll={onScroll}
        className="relative h-full overflow-x-hidden overflow-y-auto px-4 [overflow-anchor:none]"
        role="region"
        aria-label="Conversation"
        tabIndex={-1}
      >
        <div ref={content} className="mx-auto w-full max-w-[800px] pt-2 pb-6">
          {more && <div ref={top} className="h-px" />}
          {older === "reading" && !hidden && <p className="py-3 text-center text-sm text-text-muted">Reading earlier messages…</p>}
          {older === "failed" && !hidden && (
            <p role="status" className="py-3 text-center text-sm text-text-muted">
              Earlier messages cannot be read now.{" "}
              <button type="button" className="underline underline-offset-2 hover:text-text-primary" onClick={() => void chat.older()}>
                Try again
              </button>
            </p>
          )}
          {opened.phase === "loading" && exchanges.length === 0 && <Skeleton />}
          {!more && opened.restored.length > 0 && <Continued list={opened.restored} />}
          {shown.map((x, i) => (
            <Fragment key={keys.get(x.id) ?? x.id}>
              {i === forked && <ForkedHere />}
              {i > 0 && <Moved to={moved[i]?.at(-1)} />}
              {places[i]?.map((r) => (
                <WentBack key={r.seq} rewind={r} onUndo={busy ? undefined : () => undo(r.seq)} />
              ))}
              <article
                aria-label={older === "none" ? `Question ${exchanges.length - shown.length + i + 1}` : "Question"}
                className="flex flex-col gap-4 py-3"
              >
                {x.direct ? (
                  <DirectCall turn={x.id} question={x.question} />
                ) : (
                  <UserMessage text={x.question} resources={x.resources} attachments={x.attachments} onRewind={x.seq && !busy ? () => setTo({ where: { turn: x.first ?? x.id }, message: x.question }) : undefined} />
                )}
                <Boundary fallback={<p className="plain text-sm text-text-muted">This answer cannot be shown. It is in the log.</p>} retry={x.standing}>
                  <AgentMessage exchange={x} last={x === last} />
                </Boundary>
              </article>
            </Fragment>
          ))}
          {forked === shown.length && <ForkedHere />}
          {shown.length > 0 && <Moved to={moved.at(-1)?.at(-1)} />}
          {opened.rewinding && <p role="status" className="animate-pulse-soft py-3 text-center text-sm text-text-muted">Files are being restored…</p>}
          {!opened.rewinding && places.at(-1)?.map((r) => <WentBack key={r.seq} rewind={r} last onUndo={busy ? undefined : () => undo(r.seq)} />)}
        </div>
      </div>
      {to && (
        <Suspense fallback={null}>
          <RewindDialog
            where={to.where}
            message={to.message}
            rewind={(where, what, version) => chat.rewind(where, what, version)}
            onDone={(r) => {
              setTo(undefined);
              if ("turn" in to.where && r.what !== "files" && r.message) putBack({ text: r.message, attached: [] });
            }}
            onClose={() => setTo(undefined)}
          />
        </Suspense>
      )}
      {away && !(beneath && last?.standing === "waiting") && ( // what is asked has its own buttons there
        <button
          type="button"
          onClick={() => toEnd(true)}
          className="absolute bottom-3 left-1/2 inline-flex h-9 -translate-x-1/2 [@media(pointer:coarse)]:h-11 items-center gap-1.5 rounded-full border border-border bg-surface px-3.5 text-sm text-text-primary shadow-lg shadow-black/30 hover:bg-hover"
        >
          <ArrowDown size={16} />
          {last && isOpen(last.standing) && last.standing !== "waiting" ? "Follow the answer" : "Jump to latest"}
        </button>
      )}
    </div>
  );
}

function Skeleton() {
  return (
    <div aria-hidden="true" className="flex animate-pulse-soft flex-col gap-5 pt-4">
      <div className="ml-auto h-11 w-2/5 rounded-2xl bg-surface" />
      <div className="h-28 rounded-lg bg-surface" />
      <div className="h-5 w-4/5 rounded bg-surface" />
      <div className="h-5 w-3/5 rounded bg-surface" />
    </div>
  );
}
