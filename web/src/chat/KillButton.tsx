import { useEffect, useState } from "react";

import { isOpen } from "../session/exchange.ts";
import { Power } from "../ui/icons.tsx";
import { useActions, useChat } from "./use-chat.ts";

/**
 * Kills the demo's server, which starts again at once, so that a visitor sees what becomes of an
 * answer. Only a demo on this machine offers it.
 */
export function KillButton() {
  const { client } = useActions();
  const [offered, setOffered] = useState(false);
  const answering = useChat((s) => {
    const last = s.opened.exchanges.at(-1);
    return last !== undefined && isOpen(last.standing) && last.standing !== "waiting" && last.standing !== "pending";
  });
  useEffect(() => {
    const stop = new AbortController();
    client.server(stop.signal).then(
      (s) => setOffered(s.killable === true),
      () => undefined, // without the server there is nothing to kill
    );
    return () => stop.abort();
  }, [client]);
  if (!offered) return null;
  return (
    <button
      type="button"
      title="Ends the server without warning, as a power cut does. It starts again by itself."
      aria-label="Kill the server"
      onClick={() => void client.kill().catch(() => undefined)} // its answer may be lost with it
      className={`inline-flex h-8 shrink-0 items-center gap-1.5 rounded-lg px-2 text-xs font-medium transition-colors [@media(pointer:coarse)]:h-11 [@media(pointer:coarse)]:min-w-11 justify-center ${
        answering ? "text-danger outline outline-danger/60 hover:bg-danger-surface" : "text-text-muted hover:bg-hover hover:text-text-primary"
      }`}
    >
      <Power size={16} />
      <span>
        Kill<span className="max-sm:hidden"> the server</span>
      </span>
    </button>
  );
}
