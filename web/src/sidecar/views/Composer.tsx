/** @jsxImportSource preact */
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Chat, State } from "../chat.ts";
import { Icon } from "./icons.tsx";
import type { Ui } from "./View.tsx";

/** More is no message. */
const longest = 20_000;

export function Composer({ chat, state, draft, ui }: { chat: Chat; state: State; draft: string; ui: Ui }) {
  const input = useRef<HTMLTextAreaElement>(null);
  const busy = state.phase !== "idle";
  const empty = draft.trim() === "";
  useLayoutEffect(() => {
    const e = input.current;
    if (!e || e.scrollHeight === 0 || CSS.supports("field-sizing", "content")) return;
    e.style.blockSize = "auto";
    e.style.blockSize = `${Math.min(e.scrollHeight, 160)}px`;
  }, [draft, ui.open]);
  const send = () => {
    if (busy || empty) return;
    const text = draft;
    ui.onDraft("");
    chat.send(text);
  };
  const waits = state.messages.some((m) => m.card?.state === "open");
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        send();
        input.current?.focus();
      }}
    >
      {state.notice !== "" && (
        <p class="notice">
          <span>{state.notice}</span>
          <button type="button" class="link" onClick={() => chat.dismiss()}>
            Dismiss
          </button>
        </p>
      )}
      {ui.context !== undefined && (
        <label class="context" title="The agent is told what this page shows">
          <input type="checkbox" checked={ui.withContext} onChange={(e) => ui.onContext(e.currentTarget.checked)} />
          <span>
            Send with this page: <bdi>{ui.context}</bdi>
          </span>
        </label>
      )}
      <div class="box">
        <textarea
          ref={input}
          data-first
          rows={1}
          aria-label="Message"
          aria-describedby="hint"
          placeholder={waits ? "Confirm, cancel, or say what to do instead" : "Ask, or say what to do"}
          maxLength={longest}
          dir="auto"
          value={draft}
          onInput={(e) => ui.onDraft(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
            e.preventDefault();
            send();
          }}
        />
        {busy ? (
          <button type="button" class="send" aria-label="Stop" title="Stop" disabled={state.phase === "stopping"} onClick={() => void chat.stop()}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="send" aria-label="Send" title="Send" disabled={empty}>
            <Icon name="send" />
          </button>
        )}
      </div>
      <p id="hint" class="unseen">
        Enter sends, Shift and Enter begins a new line.
      </p>
    </form>
  );
}
