/** @jsxImportSource preact */
// The whole panel, from its state. It knows nothing of where the state comes from.

import { useEffect, useRef, useState } from "preact/hooks";

import type { Options } from "../../../public/sidecar.d.ts";
import type { Chat, State } from "../chat.ts";
import { Composer } from "./Composer.tsx";
import { Conversation } from "./Conversation.tsx";
import { History } from "./History.tsx";
import { Icon } from "./icons.tsx";

export interface Ui {
  open: boolean;
  /** It covers the page. */
  modal: boolean;
  options: Options;
  shortcut: string;
  said: { text: string; urgent: string; n: number };
  context: string | undefined;
  withContext: boolean;
  onContext(on: boolean): void;
  onOpen(): void;
  onClose(): void;
  onDraft(text: string): void;
}

export function View({ chat, state, draft, ui }: { chat: Chat; state: State; draft: string; ui: Ui }) {
  const [page, setPage] = useState<"talk" | "history">("talk");
  const title = ui.options.title ?? "Assistant";
  const launcher = ui.options.launcher !== false;
  const heading = useRef<HTMLHeadingElement>(null);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else if (page === "history") heading.current?.focus();
    else (heading.current?.getRootNode() as ShadowRoot | undefined)?.querySelector<HTMLElement>("[data-first]")?.focus();
  }, [page]);
  const waits = state.messages.some((m) => m.card?.state === "open");
  const label = ui.open ? `Close ${title}` : waits ? `Open ${title}, a confirmation waits` : `Open ${title}`;
  return (
    <>
      <div data-layer class="layer">
        {launcher && !(ui.open && ui.modal) && (
          <button type="button" data-launcher class={ui.open ? "launcher away" : "launcher"} aria-label={label} title={label} aria-expanded={ui.open} aria-keyshortcuts={ui.shortcut || undefined} onClick={ui.open ? ui.onClose : ui.onOpen}>
            <Icon name="chat" />
            {waits && !ui.open && <span class="dot" />}
          </button>
        )}
      </div>
      <dialog
        class={ui.modal ? "panel over" : "panel"}
        aria-labelledby="title"
        aria-modal={ui.modal ? "true" : undefined}
        onCancel={(e) => {
          e.preventDefault();
          ui.onClose();
        }}
        onKeyDown={(e) => {
          if (e.key !== "Escape" || e.defaultPrevented || e.isComposing) return;
          e.preventDefault();
          if (page === "history") setPage("talk");
          else ui.onClose();
        }}
      >
        <header>
          {page === "history" ? (
            <IconButton icon="back" label="Back to the conversation" onClick={() => setPage("talk")} />
          ) : (
            <span class="mark" aria-hidden="true">
              <Icon name="spark" />
            </span>
          )}
          <h2 id="title" ref={heading} tabIndex={-1}>
            <bdi>{page === "history" ? "Conversations" : title}</bdi>
          </h2>
          {page === "talk" && <IconButton icon="history" label="Conversations" onClick={() => setPage("history")} />}
          <IconButton
            icon="plus"
            label="New conversation"
            disabled={page === "talk" && state.messages.length === 0}
            onClick={() => {
              chat.fresh();
              setPage("talk");
            }}
          />
          <IconButton icon="close" label={`Close ${title}`} shortcut="Escape" onClick={ui.onClose} />
        </header>
        {page === "history" ? (
          <History chat={chat} current={state.conversation} done={() => setPage("talk")} />
        ) : (
          <>
            <Conversation chat={chat} state={state} options={ui.options} visible={ui.open} />
            <Composer chat={chat} state={state} draft={draft} ui={ui} />
          </>
        )}
        {/* Inside, because what is outside of a modal dialog is not read. */}
        <div class="unseen" role="status" aria-live="polite" key={`p${ui.said.n % 2}`}>
          {ui.said.text}
        </div>
        <div class="unseen" role="alert" key={`u${ui.said.n % 2}`}>
          {ui.said.urgent}
        </div>
      </dialog>
    </>
  );
}

export function IconButton({ icon, label, onClick, disabled, shortcut }: { icon: Parameters<typeof Icon>[0]["name"]; label: string; onClick: () => void; disabled?: boolean; shortcut?: string }) {
  return (
    <button type="button" class="icon" aria-label={label} title={label} aria-keyshortcuts={shortcut} disabled={disabled ?? false} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}
