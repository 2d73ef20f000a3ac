import { createContext, use, type ComponentType, type ReactNode } from "react";
import { useStore } from "zustand";

import { oneLine } from "../ui/tame.ts";
import type { Exchange } from "../session/exchange.ts";
import type { Chat } from "./chat.ts";
import type { ChatState } from "./state.ts";

export const ChatContext = createContext<Chat | undefined>(undefined);

/** The page's actions. */
export function useActions(): Chat {
  const chat = use(ChatContext);
  if (!chat) throw new Error("no ChatContext around this component");
  return chat;
}

/** A part of the page's state; a component is drawn again only when its part changes. */
export function useChat<T>(select: (s: ChatState) => T): T {
  return useStore(useActions().store, select);
}

/** The name of the open session: the one it was given, or what it began with. */
export function titleOf(s: ChatState): string {
  const { id, exchanges, preview } = s.opened;
  return oneLine(s.known[id]?.title || preview || exchanges[0]?.question || "", 120);
}

type Part = ComponentType<{ exchange: Exchange }>;

/** What a page draws of an answer in its own way. What it leaves out is drawn in the common way, or not at all. */
export interface Parts {
  /** What was done before the answer; in the place of the common thought process. */
  Steps?: ComponentType<{ exchange: Exchange; running: boolean; opened: boolean }>;
  /** Below the steps. */
  Figures?: Part;
  /** Around the text, once it is whole. */
  Around?: ComponentType<{ exchange: Exchange; children: ReactNode }>;
  /** Below the text. */
  Below?: ComponentType<{ exchange: Exchange; last: boolean }>;
  /** Controls below the input. */
  Settings?: ComponentType;
}

const common: Parts = {};

export const PartsContext = createContext<Parts>(common);

export const useParts = (): Parts => use(PartsContext);
