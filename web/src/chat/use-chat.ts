import { createContext, use, type ComponentType, type ReactNode } from "react";
import { useStore } from "zustand";

import { oneLine } from "../ui/tame.ts";
import type { Event } from "../api/types.gen.ts";
import type { Exchange } from "../session/exchange.ts";
import type { Chat } from "./chat.ts";
import { addressOf } from "./browser.ts";
import type { ListedState } from "./listed.ts";
import type { ChatState } from "./state.ts";
import type { Wanted } from "./turn/use-marked.ts";
import type { Words } from "./turn/words.ts";

export const ChatContext = createContext<Chat | undefined>(undefined);

/** The page's actions. */
export function useActions(): Chat {
  const chat = use(ChatContext);
  if (!chat) throw new Error("no ChatContext around this component");
  return chat;
}

/** A part of the page's state; a component only renders again when its part changes. */
export function useChat<T>(select: (s: ChatState) => T): T {
  return useStore(useActions().store, select);
}

/** The name of the open session: its title, or its first message. */
export function titleOf(s: ChatState): string {
  const { id, exchanges, preview } = s.opened;
  return oneLine(s.known[id]?.title || preview || exchanges[0]?.question || "", 120);
}

/** The conversation that the open one is a copy of, if it is known here: it may be deleted, or one of another server. */
export function useParent(): { href: string; title: string } | undefined {
  const parent = useChat((s) => s.opened.records.parent);
  const key = useChat((s) => Object.keys(s.known).find((id) => s.known[id]?.server === parent)) ?? "";
  const title = useChat((s) => s.known[key]?.title || ((s as Partial<ListedState>).entries?.find((e) => e.server === parent)?.name ?? ""));
  return key === "" ? undefined : { href: addressOf(key), title };
}

type Part = ComponentType<{ exchange: Exchange }>;

/**
 * Parts of an answer that a page renders in its own way. Missing parts are rendered in the
 * common way or not at all.
 */
export interface Parts {
  /** The work before the answer, instead of the common thought process. */
  Steps?: ComponentType<{ exchange: Exchange; running: boolean; opened: boolean }>;
  /** Shown below the steps. */
  Figures?: Part;
  /** Wraps the text, once it is complete. */
  Around?: ComponentType<{ exchange: Exchange; children: ReactNode }>;
  /** Shown below the text. */
  Below?: ComponentType<{ exchange: Exchange; last: boolean }>;
  /** A hook: how the steps of a turn are said. */
  useWords?: (events: readonly Event[]) => Words;
  /** A hook: the text of a turn's steps that something else on the page leads to. */
  useWanted?: (turn: string) => (Wanted & { seq: number }) | undefined;
}

const common: Parts = {};

export const PartsContext = createContext<Parts>(common);

export const useParts = (): Parts => use(PartsContext);
