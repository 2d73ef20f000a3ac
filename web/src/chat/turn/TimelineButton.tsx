import { Suspense, useState } from "react";

import { Bars } from "../../ui/icons.tsx";
import { lazily } from "../../ui/lazily.ts";
import { useChat } from "../use-chat.ts";
import { plainWords, type Words } from "./words.ts";

const Timeline = lazily(() => import("./Timeline.tsx"));

/** Opens the timeline of a turn. Shows nothing if the turn's log has not been read. */
export function TimelineButton({ turn, words = plainWords }: { turn: string; words?: Words }) {
  const [open, setOpen] = useState(false);
  const there = useChat((s) => s.opened.records.events.has(turn));
  if (!there) return null;
  return (
    <>
      <button
        type="button"
        onClick={() => setOpen(true)}
        className="mr-2 inline-flex h-8 shrink-0 items-center gap-1.5 rounded-lg px-2 font-mono hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:h-11"
      >
        <Bars size={14} />
        Timeline
      </button>
      {open && (
        <Suspense>
          <Timeline turn={turn} words={words} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
