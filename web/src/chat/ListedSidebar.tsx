import { useCallback, useMemo } from "react";
import { useStore } from "zustand";

import { awaitedIn } from "../session/inbox.ts";
import type { Listed } from "./listed.ts";
import { Sidebar } from "./Sidebar.tsx";

/** The sidebar of a page whose list of sessions is the server's. */
export function ListedSidebar({ chat, empty, ...props }: { chat: Listed; empty?: string; onChosen(): void; onClose?: () => void }) {
  const entries = useStore(chat.store, (s) => s.entries);
  const known = useStore(chat.store, (s) => s.known);
  const rows = useStore(chat.inbox.store, (s) => s.rows);
  const more = useStore(chat.store, (s) => s.moreSessions);
  const sessions = useMemo(
    () =>
      (entries ?? []).map((e) => ({
        ...e,
        name: known[e.id]?.title || e.name,
        waits: rows ? awaitedIn(rows, e.server ?? known[e.id]?.server) : e.waiting > 0 ? ("somebody" as const) : undefined,
      })),
    [entries, known, rows],
  );
  const further = useCallback(() => void chat.furtherSessions(), [chat]);
  return <Sidebar sessions={sessions} more={more} onMore={further} {...(!entries ? { empty: "" } : empty !== undefined && { empty })} where="on the server, for every client" {...props} />;
}
