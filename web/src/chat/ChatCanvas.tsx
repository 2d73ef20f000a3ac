import { useEffect, useMemo, useState, type ReactNode, type RefObject } from "react";

import { isOffline, type ApiError } from "../api/client.ts";
import { isOpen } from "../session/exchange.ts";
import { Boundary } from "../ui/boundary.tsx";
import { Broken } from "../ui/broken.tsx";
import { Button, IconButton } from "../ui/button.tsx";
import { Alert, Close, Menu } from "../ui/icons.tsx";
import { sentence } from "../ui/text.ts";
import { ThemeMenu } from "../ui/theme-menu.tsx";
import { Announcer } from "./Announcer.tsx";
import { ChatInput } from "./ChatInput.tsx";
import { EmptyState } from "./EmptyState.tsx";
import { InboxButton } from "./InboxButton.tsx";
import { KillButton } from "./KillButton.tsx";
import { MessageList } from "./MessageList.tsx";
import { Notices } from "./Notices.tsx";
import { titleOf, useActions, useChat } from "./use-chat.ts";
import { heldIn, waitingIn } from "./waiting.ts";

interface Props {
  narrow: boolean;
  /** The sidebar covers it. */
  covered: boolean;
  opener: RefObject<HTMLButtonElement | null>;
  onMenu(): void;
  /** Additional controls for the header. */
  tools?: ReactNode;
}

export function ChatCanvas({ narrow, covered, opener, onMenu, tools }: Props) {
  const chat = useActions();
  const opened = useChat((s) => s.opened);
  const refused = useChat((s) => (s.opened.exchanges.length === 0 ? s.refused : undefined));
  const appTitle = useChat((s) => s.app?.title ?? chat.words.title);
  const title = useChat(titleOf);
  const last = opened.exchanges.at(-1);
  const open = useMemo(() => waitingIn(opened.exchanges, opened.records), [opened.exchanges, opened.records]);
  const waiting = last?.standing === "sending" ? undefined : open;
  const held = useMemo(() => heldIn(opened.exchanges), [opened.exchanges]);
  const streaming = last !== undefined && isOpen(last.standing) && !waiting && !held;
  const blank = (opened.phase === "new" || opened.phase === "live") && opened.exchanges.length === 0 && opened.rewinds.length === 0 && !opened.rewinding;

  return (
    <main className="relative flex min-w-0 flex-1 flex-col bg-bg" inert={covered}>
      <header className="flex h-13 shrink-0 items-center gap-2 px-3">
        {narrow && (
          <button
            ref={opener}
            type="button"
            aria-label="Conversations"
            aria-expanded={covered}
            onClick={onMenu}
            className="inline-flex size-11 shrink-0 items-center justify-center rounded-lg text-text-muted hover:bg-hover hover:text-text-primary"
          >
            <Menu size={20} />
          </button>
        )}
        <h1 dir="auto" className="min-w-0 flex-1 truncate px-1 text-sm font-medium text-text-muted">{title || appTitle}</h1>
        <ConnectionState />
        <KillButton />
        <InboxButton />
        {tools}
        <ThemeMenu />
      </header>
      {refused ? (
        <NotServed error={refused} />
      ) : opened.phase === "lost" ? (
        <Lost />
      ) : blank ? (
        <EmptyState onAsk={(question) => void chat.send(question)} />
      ) : (
        <Boundary key={opened.id} fallback={<Broken what="This conversation" />}>
          <MessageList opened={opened} />
        </Boundary>
      )}
      <footer className="shrink-0 px-4 pb-[max(1rem,env(safe-area-inset-bottom))]">
        <div className="mx-auto w-full max-w-[800px]">
          <Notices />
          <Problem />
          {refused || opened.phase === "lost" ? null : opened.phase === "local" || opened.phase === "ended" ? (
            <div className="flex flex-wrap items-center justify-between gap-3 rounded-xl border border-border bg-surface px-4 py-3 text-sm text-text-muted">
              <span className="min-w-0 flex-1 basis-64">
                {opened.phase === "local" ? "This conversation is kept only in this browser." : "This conversation has ended."} You can read it; to go
                on, begin a new one.
              </span>
              <Button onClick={() => chat.newChat()}>New Chat</Button>
            </div>
          ) : (
            <ChatInput
              key={opened.id}
              session={opened.id}
              streaming={streaming}
              waiting={waiting}
              held={held}
              stopping={last?.stopping ?? false}
              blocked={opened.phase === "loading" || opened.phase === "failed" || last?.standing === "unsent"}
              onSend={(text, busy, attached, files) => void chat.send(text, busy, attached, files)}
              onStop={() => void chat.stop()}
            />
          )}
        </div>
      </footer>
      <Announcer exchange={last} />
    </main>
  );
}

/** Shown at the address of an app that is off, or that does not exist. */
function NotServed({ error }: { error: ApiError }) {
  const { client } = useActions();
  return (
    <div role="alert" className="flex min-h-0 flex-1 flex-col overflow-y-auto px-4">
      <div className="m-auto w-full max-w-[640px] py-8">
        <h2 className="text-2xl font-semibold tracking-tight">This app is not served</h2>
        <p className="mt-2 wrap-anywhere">{sentence(error.message)}</p>
        <p className="mt-1 mb-5 wrap-anywhere text-text-muted">{sentence(error.hint)}</p>
        <a href={client.base} className="inline-flex h-9 items-center rounded-lg border border-border px-3.5 text-sm font-medium hover:bg-hover [@media(pointer:coarse)]:h-11">
          All apps
        </a>
      </div>
    </div>
  );
}

/** Shown at the address of a session that does not exist. */
function Lost() {
  const chat = useActions();
  return (
    <div role="alert" className="flex min-h-0 flex-1 flex-col overflow-y-auto px-4">
      <div className="m-auto w-full max-w-[640px] py-8">
        <h2 className="text-2xl font-semibold tracking-tight">This conversation is not here</h2>
        <p className="mt-2 mb-5 text-text-muted">It was deleted, or it belongs to somebody else.</p>
        <Button onClick={() => chat.newChat()}>New Chat</Button>
      </div>
    </div>
  );
}

/** Shows nothing while all is well, and waits a moment before it reports a problem. */
function ConnectionState() {
  const chat = useActions();
  const connection = useChat((s) => s.opened.connection);
  const cut = connection?.state === "waiting" || connection?.state === "connecting";
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!cut) {
      setShown(false);
      return;
    }
    const timer = setTimeout(() => setShown(true), 1200);
    return () => clearTimeout(timer);
  }, [cut]);
  return (
    <div role="status" className="text-xs text-text-muted">
      {cut && shown && (
        // On a phone the header has no room for it.
        <div className="flex items-center gap-1.5 max-sm:absolute max-sm:inset-x-0 max-sm:top-13 max-sm:z-10 max-sm:justify-center max-sm:border-b max-sm:border-border max-sm:bg-surface max-sm:py-1">
          <span className="size-1.5 animate-pulse-soft rounded-full bg-accent" aria-hidden="true" />
          {isOffline() ? "This device is offline. Reconnecting…" : "Reconnecting…"}
          <button type="button" className="reach rounded px-1 underline underline-offset-2 hover:text-text-primary" onClick={() => chat.reconnect()}>
            Now
          </button>
        </div>
      )}
    </div>
  );
}

/** What went wrong, and what to do about it. */
function Problem() {
  const chat = useActions();
  const problem = useChat((s) => s.problem);
  const failed = useChat((s) => (s.opened.phase === "failed" ? s.opened.error : undefined));
  const unread = useChat((s) => (s.app ? undefined : s.unread));
  const error = problem ?? failed ?? unread;
  if (!error) return null;
  return (
    <div role="alert" className="mb-2 flex items-start gap-2.5 rounded-xl border border-danger/40 bg-danger-surface px-3.5 py-2.5 text-sm">
      <span className="mt-0.5 text-danger">
        <Alert size={16} />
      </span>
      <p className="min-w-0 flex-1 self-center">
        {sentence(error.message)} {error.hint && <span className="text-text-muted">{sentence(error.hint)}</span>}
      </p>
      {problem ? (
        <IconButton label="Dismiss" className="-my-1 -mr-1.5" onClick={() => chat.dismiss()}>
          <Close size={16} />
        </IconButton>
      ) : (
        <Button kind="quiet" className="-my-1 h-8! [@media(pointer:coarse)]:h-11!" onClick={() => chat.reconnect()}>
          Try again
        </Button>
      )}
    </div>
  );
}
