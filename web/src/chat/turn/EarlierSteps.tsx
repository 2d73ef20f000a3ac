import { useLayoutEffect, useRef, useState, type RefObject } from "react";

import { useActions } from "../use-chat.ts";

/** How many steps are drawn at first, and added when the reader asks for them. */
const portion = 200;

/**
 * The last steps of a turn, and a button for those before them, which are drawn or, if none are left to draw, read. The
 * steps that are shown stay where they are.
 */
export function useEarlier<T>(turn: string, steps: readonly T[], cut: boolean | undefined, list: RefObject<HTMLElement | null>, needed?: (step: T) => boolean) {
  const chat = useActions();
  const [most, setMost] = useState(portion);
  const [state, setState] = useState<"" | "reading" | "failed">("");
  const before = useRef<number>(undefined);
  const first = needed ? steps.findIndex(needed) : -1;
  const from = first >= 0 ? Math.min(first, steps.length - most) : steps.length - most;
  const shown = from > 0 ? steps.slice(from) : steps;
  const hidden = steps.length - shown.length;
  useLayoutEffect(() => {
    const l = list.current;
    if (!l || before.current === undefined) return;
    const grown = l.scrollHeight - before.current;
    before.current = undefined;
    if (grown > 0) l.closest("[role=region]")?.scrollBy({ top: grown, behavior: "instant" });
  }, [shown.length, list]);
  const earlier = async () => {
    before.current = list.current?.scrollHeight;
    setMost((n) => n + portion);
    if (hidden > 0) return;
    setState("reading");
    try {
      await chat.earlier(turn);
      setState("");
    } catch {
      before.current = undefined;
      setState("failed");
    }
  };
  const button = (hidden > 0 || cut) && (
    <p className="py-1">
      <button type="button" disabled={state === "reading"} className="reach underline underline-offset-2 hover:text-text-primary" onClick={() => void earlier()}>
        {state === "reading" ? "Reading earlier steps…" : "Earlier steps"}
      </button>
      {state === "failed" && <span role="status"> They cannot be read now.</span>}
    </p>
  );
  return { shown, button };
}
