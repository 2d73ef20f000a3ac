import { lazy, Suspense, useMemo } from "react";
import { useStore } from "zustand";

import { Frame } from "../../chat/Frame.tsx";
import { ListedSidebar } from "../../chat/ListedSidebar.tsx";
import { StepLog } from "../../chat/turn/StepLog.tsx";
import type { Words } from "../../chat/turn/words.ts";
import { PartsContext, type Parts } from "../../chat/use-chat.ts";
import { IconButton } from "../../ui/button.tsx";
import { House } from "../../ui/icons.tsx";
import { useMedia } from "../../ui/use-media.ts";
import type { Event } from "../../api/types.gen.ts";
import { namesIn, wordsOf } from "./calls.ts";
import { Chips } from "./Chips.tsx";
import { Figures } from "./Figures.tsx";
import { Leading, Past } from "./Leading.tsx";
import type { Home } from "./state.ts";
import type { Names } from "./plain.ts";
import { showPanel, useHome, useHouse, wide } from "./use-home.ts";

const EntityPanel = lazy(() => import("./EntityPanel.tsx"));
const EntityDrawer = lazy(() => import("./EntityDrawer.tsx"));

const parts: Parts = { Steps: StepLog, Figures, Around: Leading, Below: Chips, useWords, useWanted };

/** The steps of a turn, in the names of the house. */
function useWords(events: readonly Event[]): Words {
  const entities = useHouse((h) => h.entities);
  return useMemo(() => wordsOf(new Map([...namesIn(events), ...entities]) satisfies Names), [events, entities]);
}

/** The line of a turn's steps that a figure of an answer leads to. */
function useWanted(turn: string) {
  const { evidence } = useHome();
  return useStore(evidence, (s) => (s.shown?.kind === "line" && s.shown.turn === turn ? s.shown : undefined));
}

export function App({ home }: { home: Home }) {
  const { panel } = useHome();
  const open = useStore(panel, (s) => s.open);
  const roomy = useMedia(wide);
  return (
    <PartsContext value={parts}>
      <Frame
        sidebar={(props) => <ListedSidebar chat={home} empty="Conversations about your home will be listed here." {...props} />}
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
