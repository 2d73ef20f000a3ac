/** @jsxImportSource preact */
// The stored conversations: opened, renamed, deleted, found.

import { useEffect, useRef, useState } from "preact/hooks";

import { toApiError } from "../../api/client.ts";
import type { Chat } from "../chat.ts";
import type { Conversation } from "../conversations.ts";
import { NoToken } from "../token.ts";
import { IconButton } from "./View.tsx";

const words = (cause: unknown): string => (cause instanceof NoToken ? cause.message : toApiError(cause).message);

export function History({ chat, current, done }: { chat: Chat; current: string; done: () => void }) {
  const [list, setList] = useState<readonly Conversation[]>();
  const [query, setQuery] = useState("");
  const [error, setError] = useState("");
  const [round, setRound] = useState(0);
  useEffect(() => {
    let here = true;
    const timer = setTimeout(
      () =>
        void chat.conversations.list(query.trim()).then(
          (found) => {
            if (!here) return;
            setList(found);
            setError("");
          },
          (cause: unknown) => here && setError(words(cause)),
        ),
      query === "" ? 0 : 200,
    );
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [query, round]);
  const doing = async (f: () => Promise<void>) => {
    try {
      await f();
      setError("");
    } catch (cause) {
      setError(words(cause));
    }
    setRound((n) => n + 1);
  };
  return (
    <div class="history">
      <label class="find">
        <span class="unseen">Find a conversation</span>
        <input type="search" placeholder="Find a conversation" value={query} dir="auto" onInput={(e) => setQuery(e.currentTarget.value)} />
      </label>
      {error !== "" && (
        <p class="error" role="alert">
          {error}{" "}
          <button type="button" class="link" onClick={() => setRound((n) => n + 1)}>
            Try again
          </button>
        </p>
      )}
      {!list && error === "" && (
        <p class="status">
          <span class="spinner" aria-hidden="true" />
          <span>Reading…</span>
        </p>
      )}
      {list?.length === 0 && <p class="none">{query === "" ? "No conversation yet." : "None has that."}</p>}
      {list && list.length > 0 && (
        <ul aria-label="Conversations">
          {list.map((c) => (
            <Row
              key={c.id}
              c={c}
              current={c.id === current}
              onOpen={() =>
                void doing(async () => {
                  if (c.id !== current) await chat.show(c.id);
                  done();
                })
              }
              onRename={(title) => doing(() => chat.rename(c.id, title))}
              onRemove={() => doing(() => chat.remove(c.id))}
            />
          ))}
        </ul>
      )}
    </div>
  );
}

function Row({ c, current, onOpen, onRename, onRemove }: { c: Conversation; current: boolean; onOpen: () => void; onRename: (title: string) => Promise<void>; onRemove: () => Promise<void> }) {
  const [mode, setMode] = useState<"" | "rename" | "remove">("");
  const [title, setTitle] = useState(c.title);
  const first = useRef<HTMLElement>(null);
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (mode !== "") first.current?.focus();
  }, [mode]);
  const leave = () => {
    setMode("");
    row.current?.querySelector<HTMLElement>("button")?.focus();
  };
  const keys = (e: KeyboardEvent) => {
    if (e.key !== "Escape" || mode === "") return;
    e.preventDefault();
    leave();
  };
  return (
    <li ref={row} data-current={current} onKeyDown={keys}>
      {mode === "rename" ? (
        <form
          onSubmit={(e) => {
            e.preventDefault();
            const now = title.trim();
            leave();
            if (now !== "" && now !== c.title) void onRename(now);
          }}
        >
          <input ref={first as { current: HTMLInputElement | null }} aria-label="Title" maxLength={200} value={title} dir="auto" onInput={(e) => setTitle(e.currentTarget.value)} />
          <button type="submit" class="link">
            Save
          </button>
        </form>
      ) : mode === "remove" ? (
        <div class="sure" role="group" aria-label={`Delete ${c.title}?`}>
          <span>Delete it for good?</span>
          <button type="button" class="link" ref={first as { current: HTMLButtonElement | null }} onClick={leave}>
            Keep
          </button>
          <button type="button" class="link danger" onClick={() => void onRemove()}>
            Delete
          </button>
        </div>
      ) : (
        <>
          <button type="button" class="row" aria-current={current ? "true" : undefined} onClick={onOpen}>
            <span class="name" dir="auto">
              {c.title}
            </span>
            {c.updated > 0 && <time dateTime={new Date(c.updated).toISOString()}>{when(c.updated)}</time>}
          </button>
          <IconButton icon="pen" label={`Rename ${c.title}`} onClick={() => (setTitle(c.title), setMode("rename"))} />
          <IconButton icon="bin" label={`Delete ${c.title}`} onClick={() => setMode("remove")} />
        </>
      )}
    </li>
  );
}

/** "14:05" today, else the day. */
function when(at: number): string {
  const date = new Date(at);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString([], { day: "numeric", month: "short", ...(date.getFullYear() !== new Date().getFullYear() && { year: "numeric" }) });
}
