import { createContext, use } from "react";
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";

import type { Entities, House } from "./entities.ts";
import { type EvidenceState } from "./use-evidence.ts";

/** Whether the entity panel is visible, and the entity wanted in it. */
export interface PanelState {
  open: boolean;
  /** A new time makes requesting the same entity again a change. */
  wanted: { id: string; at: number } | undefined;
}

const key = "parley.home.panel";

export function createPanel(): StoreApi<PanelState> {
  let closed = false;
  try {
    closed = localStorage.getItem(key) === "closed";
  } catch {
    // No storage: it is open at first.
  }
  const media = matchMedia(wide);
  const panel = createStore<PanelState>(() => ({ open: !closed && media.matches, wanted: undefined }));
  let beside = panel.getState().open;
  // A window that becomes too narrow for both must not show the house in place of the chat.
  media.addEventListener("change", ({ matches }) => {
    if (!matches) beside = panel.getState().open;
    panel.setState({ open: matches && beside });
  });
  return panel;
}

/** From this width on, there is room for the panel beside the chat. */
export const wide = "(min-width: 1180px)";

export function showPanel(panel: StoreApi<PanelState>, open: boolean): void {
  panel.setState({ open, ...(!open && { wanted: undefined }) });
  if (!matchMedia(wide).matches) return; // over the chat, it is closed again soon
  try {
    localStorage.setItem(key, open ? "open" : "closed");
  } catch {
    // It holds until the page is closed.
  }
}

export function showEntity(panel: StoreApi<PanelState>, id: string): void {
  panel.setState({ open: true, wanted: { id, at: Date.now() } });
}

export interface HomeParts {
  entities: Entities;
  panel: StoreApi<PanelState>;
  evidence: StoreApi<EvidenceState>;
}

export const HomeContext = createContext<HomeParts | undefined>(undefined);

export function useHome(): HomeParts {
  const parts = use(HomeContext);
  if (!parts) throw new Error("no HomeContext around this component");
  return parts;
}

export function useHouse<T>(select: (h: House) => T): T {
  return useStore(useHome().entities.store, select);
}
