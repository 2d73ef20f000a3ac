import { memo, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

import { limits } from "../api/types.gen.ts";
import type { Awaited } from "../session/inbox.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Close, Dots, Fork, Pencil, Plus, Trash } from "../ui/icons.tsx";
import { Menu, MenuItem } from "../ui/menu.tsx";
import { oneLine } from "../ui/tame.ts";
import { ago } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import type { More } from "./state.ts";
import { AppMenu } from "./AppMenu.tsx";
import { useActions, useChat } from "./use-chat.ts";

/** A session as a list shows it. */
export interface Entry {
  id: string;
  name: string;
  /** When it began, or was last used. */
  time: string;
  /** When it began, if time is something else: its displayed name must not change when it is used. */
  begun?: string;
  /** Whom it waits for; "somebody" while only the server's count of what is open is known. */
  waits?: Awaited | "somebody" | undefined;
}

interface Props {
  sessions: readonly Entry[];
  /** Whether there are more, which are read when the list is scrolled to its end. */
  more?: More;
  onMore?: () => void;
  /** Shown while there are none. */
  empty?: string;
  /** Where deleting removes a session from. */
  where?: string;
  /** Shown under the name of the app. */
  top?: ReactNode;
  /** Shown in place of the sessions. */
  body?: ReactNode;
  /** Called after a session or a new chat was selected. */
  onChosen(): void;
  /** On a phone: closes the sidebar. */
  onClose?: () => void;
}

export function Sidebar({ sessions, more = "none", onMore, empty = "Your conversations will be listed here.", where = "here and on the server", top, body, onChosen, onClose }: Props) {
  const chat = useActions();
  const running = useChat((s) => s.running);
  const active = useChat((s) => s.opened.id);
  const served = useChat((s) => s.refused === undefined);
  const known = useChat((s) => s.known);
  const [deleting, setDeleting] = useState<Entry>();
  const now = useNow(60_000);
  const names = useMemo(() => toldApart(sessions), [sessions]);

  return (
    <>
      <div className="flex items-center gap-1 p-3 pb-0">
        <AppMenu />
        {onClose && (
          <IconButton label="Close the list" onClick={onClose}>
            <Close />
          </IconButton>
        )}
      </div>
      {top}
      {body ?? (
        <>
          <div className="flex p-3">
            {served && <Button
              className="flex-1 justify-start!"
              title="New chat (Ctrl+Shift+O)"
              onClick={() => {
                chat.newChat();
                onChosen();
              }}
            >
              <Plus size={16} />
              New Chat
            </Button>}
          </div>
          {sessions.length === 0 ? (
            <p className="px-4 py-2 text-sm text-text-muted">{served && empty}</p>
          ) : (
            <ul className="relative flex-1 overflow-y-auto pb-3" onKeyDown={moveFocus}>
              {sessions.map((s) => (
                <Item
                  key={s.id}
                  id={s.id}
                  name={oneLine(s.name, 120) || "Conversation"}
                  nth={names.get(s.id) ?? 1}
                  when={ago(s.time, now)}
                  waits={s.waits}
                  active={s.id === active}
                  running={running.has(s.id)}
                  onOpen={() => {
                    void chat.open(s.id);
                    onChosen();
                  }}
                  onRename={(title) => void chat.rename(s.id, title)}
                  onFork={
                    known[s.id]?.server !== undefined
                      ? () => {
                          void chat.fork(s.id);
                          onChosen();
                        }
                      : undefined
                  }
                  onDelete={() => setDeleting(s)}
                />
              ))}
              {more !== "none" && onMore && <Further more={more} onMore={onMore} />}
            </ul>
          )}
        </>
      )}
      {deleting && (
        <Confirm
          title="Delete this conversation?"
          action="Delete"
          onConfirm={() => void chat.remove(deleting.id)}
          onClose={() => setDeleting(undefined)}
        >
          “<bdi>{oneLine(deleting.name, 120)}</bdi>” will be deleted {where}. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

/** The end of a list that continues: the next page is read before it comes into view. */
function Further({ more, onMore }: { more: More; onMore(): void }) {
  const end = useRef<HTMLLIElement>(null);
  useEffect(() => {
    const e = end.current;
    if (!e || more !== "more") return;
    const seen = new IntersectionObserver((entries) => entries.some((x) => x.isIntersecting) && onMore(), {
      root: e.parentElement,
      rootMargin: "0px 0px 600px",
    });
    seen.observe(e);
    return () => seen.disconnect();
  }, [more, onMore]);
  return (
    <li ref={end} className="px-4 py-2 text-sm text-text-muted">
      {more === "failed" ? (
        <>
          The rest cannot be read now.{" "}
          <button type="button" className="underline underline-offset-2 hover:text-text-primary" onClick={onMore}>
            Try again
          </button>
        </>
      ) : (
        "Reading more…"
      )}
    </li>
  );
}

/** How much of a name fits into the list: names that agree this far look the same. */
const visible = 30;

/** By session: its number among those with the same name, starting with the oldest. */
export function toldApart(sessions: readonly Entry[]): Map<string, number> {
  const seen = new Map<string, number>();
  const nth = new Map<string, number>();
  for (const s of [...sessions].sort((a, b) => (a.begun ?? a.time).localeCompare(b.begun ?? b.time))) {
    const name = oneLine(s.name, visible).toLowerCase();
    const n = (seen.get(name) ?? 0) + 1;
    seen.set(name, n);
    nth.set(s.id, n);
  }
  return nth;
}

interface ItemProps {
  id: string;
  name: string;
  /** Its number among those with the same name, from 1 for the oldest. */
  nth: number;
  when: string;
  active: boolean;
  running: boolean;
  waits: Entry["waits"];
  onOpen(): void;
  onRename(title: string): void;
  /** Undefined: the server does not have it. */
  onFork?: (() => void) | undefined;
  onDelete(): void;
}

const waitWords = { person: "waits for you", client: "waits for a client", somebody: "waits for an answer" } as const;

const same = (a: ItemProps, b: ItemProps) =>
  a.id === b.id && a.name === b.name && a.nth === b.nth && a.when === b.when && a.active === b.active && a.running === b.running && a.waits === b.waits && !a.onFork === !b.onFork;

const Item = memo(function Item({ name, nth, when, active, running, waits, onOpen, onRename, onFork, onDelete }: ItemProps) {
  const [renaming, setRenaming] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  return (
    <li
      className={`group relative border-l-2 ${active ? "border-accent bg-hover" : "border-transparent hover:bg-hover"}`}
      data-active={active || undefined}
    >
      {renaming ? (
        <Rename
          name={name}
          onDone={(title) => {
            setRenaming(false);
            if (title && title !== name) onRename(title);
            requestAnimationFrame(() => button.current?.focus());
          }}
        />
      ) : (
        <>
          <button
            ref={button}
            type="button"
            data-session
            aria-current={active ? "true" : undefined}
            onClick={onOpen}
            onDoubleClick={() => setRenaming(true)}
            onKeyDown={(e) => {
              if (e.key === "F2") setRenaming(true);
              if (e.key === "Delete") onDelete();
            }}
            title={name}
            className="block w-full px-3.5 py-2 pr-11 text-left -outline-offset-2"
          >
            <span className="flex text-sm leading-5">
              <span dir="auto" className="truncate">{name}</span>
              {nth > 1 && <span className="shrink-0 text-text-muted">&nbsp;({nth})</span>}
            </span>
            <span className="flex items-center gap-1.5 text-xs leading-5 text-text-muted">
              {(running || waits) && (
                <span className={`size-1.5 rounded-full ${waits === "client" ? "bg-text-muted" : "bg-accent"} ${waits ? "" : "animate-pulse-soft"}`} aria-hidden="true" />
              )}
              {waits ? waitWords[waits] : running ? "answering…" : when}
            </span>
          </button>
          <div className="absolute inset-y-0 right-1.5 flex items-center opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 has-aria-expanded:opacity-100 [@media(hover:none)]:opacity-100">
            <Menu label={`Actions for ${name}${nth > 1 ? ` (${nth})` : ""}`} icon={<Dots size={16} />}>
              <MenuItem icon={<Pencil size={16} />} onSelect={() => setRenaming(true)}>
                Rename
              </MenuItem>
              {onFork && (
                <MenuItem icon={<Fork size={16} />} onSelect={onFork}>
                  Fork
                </MenuItem>
              )}
              <MenuItem danger icon={<Trash size={16} />} onSelect={onDelete}>
                Delete
              </MenuItem>
            </Menu>
          </div>
        </>
      )}
    </li>
  );
}, same);

function Rename({ name, onDone }: { name: string; onDone(title: string): void }) {
  const field = useRef<HTMLInputElement>(null);
  const done = useRef(false);
  const finish = (title: string) => {
    if (!done.current) onDone(title.trim());
    done.current = true;
  };
  useEffect(() => {
    const select = requestAnimationFrame(() => field.current?.select()); // after the menu has let go of the focus
    return () => cancelAnimationFrame(select);
  }, []);
  return (
    <div className="px-2 py-2.5">
      <input
        ref={field}
        aria-label="Name of the conversation"
        defaultValue={name}
        maxLength={limits.title}
        className="h-8 w-full rounded-lg border border-border bg-bg px-2 text-sm"
        onBlur={(e) => finish(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter") finish(e.currentTarget.value);
          if (e.key === "Escape") {
            e.preventDefault(); // not the sidebar, too
            finish("");
          }
        }}
      />
    </div>
  );
}

/** Arrow keys move from session to session. */
function moveFocus(e: KeyboardEvent<HTMLUListElement>): void {
  if (e.key !== "ArrowDown" && e.key !== "ArrowUp" && e.key !== "Home" && e.key !== "End") return;
  const all = [...e.currentTarget.querySelectorAll<HTMLElement>("[data-session]")];
  const at = all.indexOf(document.activeElement as HTMLElement);
  if (at < 0) return;
  e.preventDefault();
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[e.key];
  all[Math.min(all.length - 1, Math.max(0, to))]?.focus();
}
