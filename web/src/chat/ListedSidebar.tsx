import { useCallback, useMemo, type ReactNode } from "react";
import { useStore } from "zustand";

import { awaitedIn } from "../session/inbox.ts";
import type { Listed } from "./listed.ts";
import { Sidebar } from "./Sidebar.tsx";

interface Props {
  chat: Listed;
  empty?: string;
  /** Only the sessions of this workspace. */
  only?: string | undefined;
  top?: ReactNode;
  body?: ReactNode;
  onChosen(): void;
  onClose?: () => void;
}

/** The sidebar of a page whose list of sessions is the server's. */
export function ListedSidebar({ chat, empty, only, ...props }: Props) {
  const entries = useStore(chat.store, (s) => s.entries);
  const known = useStore(chat.store, (s) => s.known);
  const rows = useStore(chat.inbox.store, (s) => s.rows);
  const more = useStore(chat.store, (s) => s.moreSessions);
  const sessions = useMemo(
    () =>
      (entries ?? []).filter((e) => only === undefined || e.workspace === only).map((e) => ({
        ...e,
        name: known[e.id]?.title || e.name,
        waits: rows ? awaitedIn(rows, e.server ?? known[e.id]?.server) : e.waiting > 0 ? ("somebody" as const) : undefined,
      })),
    [entries, known, rows, only],
  );
  const further = useCallback(() => void chat.furtherSessions(), [chat]);
  return <Sidebar sessions={sessions} more={more} onMore={further} {...(!entries ? { empty: "" } : empty !== undefined && { empty })} where="on the server, for every client" {...props} />;
}
