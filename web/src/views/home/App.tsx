import { lazy, Suspense, useCallback, useMemo } from "react";
import { useStore } from "zustand";

import { Frame } from "../../chat/Frame.tsx";
import { Sidebar } from "../../chat/Sidebar.tsx";
import { PartsContext, type Parts } from "../../chat/use-chat.ts";
import { IconButton } from "../../ui/button.tsx";
import { House } from "../../ui/icons.tsx";
import { useMedia } from "../../ui/use-media.ts";
import { Chips } from "./Chips.tsx";
import { Figures } from "./Figures.tsx";
import { Leading, Past } from "./Leading.tsx";
import { Settings } from "./Settings.tsx";
import type { Home } from "./state.ts";
import { StepLog } from "./StepLog.tsx";
import { showPanel, useHome, wide } from "./use-home.ts";

const EntityPanel = lazy(() => import("./EntityPanel.tsx"));
const EntityDrawer = lazy(() => import("./EntityDrawer.tsx"));

const parts: Parts = { Steps: StepLog, Figures, Around: Leading, Below: Chips, Settings };

export function App({ home }: { home: Home }) {
  const { panel } = useHome();
  const open = useStore(panel, (s) => s.open);
  const roomy = useMedia(wide);
  return (
    <PartsContext value={parts}>
      <Frame
        sidebar={(props) => <Sessions home={home} {...props} />}
        tools={
          <IconButton label={open && roomy ? "Hide the house" : "Show the house"} aria-expanded={open} onClick={() => showPanel(panel, !open)}>
            <House />
          </IconButton>
        }
      >
        <Past />
        {open && roomy && (
          <aside aria-label="House" className="flex w-[330px] shrink-0 flex-col border-l border-border bg-surface">
            <Suspense>
              <EntityPanel />
            </Suspense>
          </aside>
        )}
        {open && !roomy && (
          <Suspense>
            <EntityDrawer />
          </Suspense>
        )}
      </Frame>
    </PartsContext>
  );
}

function Sessions({ home, ...props }: { home: Home; onChosen(): void; onClose?: () => void }) {
  const entries = useStore(home.store, (s) => s.entries);
  const known = useStore(home.store, (s) => s.known);
  const rows = useStore(home.inbox.store, (s) => s.rows);
  const more = useStore(home.store, (s) => s.moreSessions);
  const sessions = useMemo(
    () =>
      (entries ?? []).map((e) => ({
        ...e,
        name: known[e.id]?.title || e.name,
        waiting: rows ? rows.filter((r) => r.session === (e.server ?? known[e.id]?.server)).length : e.waiting,
      })),
    [entries, known, rows],
  );
  const further = useCallback(() => void home.furtherSessions(), [home]);
  return <Sidebar sessions={sessions} more={more} onMore={further} empty={entries ? "Conversations about your home will be listed here." : ""} where="on the server, for every client" {...props} />;
}
