import { Suspense, useCallback, useEffect, useState } from "react";

import type { Approval } from "../../api/client.ts";
import { isOpen } from "../../session/exchange.ts";
import { lazily } from "../../ui/lazily.ts";
import { Prompt } from "../../ui/icons.tsx";
import { useActions, useChat } from "../use-chat.ts";
import { counted } from "./approvals.ts";

const Approvals = lazily(() => import("./Approvals.tsx"));

/**
 * What files of the user and the workspace would run. Nothing announces a change of these files:
 * the list is read again after each turn, which may have changed them, and when somebody comes
 * back to the page.
 */
export function ApprovalsButton({ className }: { className: string }) {
  const chat = useActions();
  const offered = useChat((s) => s.app?.page?.approvals === true);
  const server = useChat((s) => s.known[s.opened.id]?.server);
  const ended = useChat((s) => s.opened.exchanges.filter((x) => !isOpen(x.standing)).length);
  const [list, setList] = useState<readonly Approval[]>([]);
  const [open, setOpen] = useState(false);
  const read = useCallback(async (signal?: AbortSignal) => setList(await chat.approvals(signal)), [chat]);
  useEffect(() => {
    if (!offered || server === undefined) {
      setList([]);
      return;
    }
    const stop = new AbortController();
    const again = () => void read(stop.signal).catch(() => undefined); // what was read last stays
    const back = () => document.visibilityState === "visible" && again();
    again();
    window.addEventListener("focus", again);
    document.addEventListener("visibilitychange", back);
    return () => {
      stop.abort();
      window.removeEventListener("focus", again);
      document.removeEventListener("visibilitychange", back);
    };
  }, [offered, server, ended, read]);
  const { text, urgent } = counted(list);
  return (
    <>
      {text !== "" && (
        <button
          type="button"
          aria-haspopup="dialog"
          onClick={() => setOpen(true)}
          className={`${className} ${urgent ? "text-link" : "text-text-muted hover:text-text-primary"}`}
        >
          <Prompt size={14} />
          {text}
        </button>
      )}
      {open && (
        <Suspense>
          <Approvals list={list} onRead={read} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
