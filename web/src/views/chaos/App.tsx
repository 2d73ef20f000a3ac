import { useMemo } from "react";
import { useStore } from "zustand";

import { Frame } from "../../chat/Frame.tsx";
import { Sidebar } from "../../chat/Sidebar.tsx";
import { awaitedIn } from "../../session/inbox.ts";
import type { Chaos } from "./state.ts";
import { shown } from "./storage.ts";

export function App({ chaos }: { chaos: Chaos }) {
  return <Frame sidebar={(props) => <Sessions chaos={chaos} {...props} />} />;
}

function Sessions({ chaos, ...props }: { chaos: Chaos; onChosen(): void; onClose?: () => void }) {
  const sessions = useStore(chaos.store, (s) => s.sessions);
  const known = useStore(chaos.store, (s) => s.known);
  const rows = useStore(chaos.inbox.store, (s) => s.rows);
  const entries = useMemo(
    () =>
      sessions.map((s) => {
        const { server, title } = known[s.id] ?? {};
        return { id: s.id, name: title || shown(s.preview), time: s.createdAt, waits: rows && awaitedIn(rows, server) };
      }),
    [sessions, known, rows],
  );
  return <Sidebar sessions={entries} {...props} />;
}
