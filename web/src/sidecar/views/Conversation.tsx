/** @jsxImportSource preact */
import { useLayoutEffect, useRef } from "preact/hooks";

import type { Options } from "../../../public/sidecar.d.ts";
import type { Chat, State } from "../chat.ts";
import { mayBeCard } from "../card.ts";
import type { Action, Message } from "../message.ts";
import { Card } from "./Card.tsx";
import { Icon } from "./icons.tsx";
import { Markdown } from "./Markdown.tsx";
import { memo } from "./memo.ts";

export function Conversation({ chat, state, options, visible }: { chat: Chat; state: State; options: Options; visible: boolean }) {
  const list = useRef<HTMLDivElement>(null);
  const down = useRef(true);
  // It stays at its end, unless somebody has scrolled up.
  useLayoutEffect(() => {
    const e = list.current;
    if (e && down.current) e.scrollTop = e.scrollHeight;
  }, [state.messages, state.phase, visible]);
  const last = state.messages.at(-1);
  return (
    <div
      ref={list}
      class="talk"
      role="log"
      aria-live="off"
      aria-label="Conversation"
      aria-busy={state.phase === "working"}
      tabIndex={0}
      onScroll={(e) => {
        const { scrollTop, scrollHeight, clientHeight } = e.currentTarget;
        down.current = scrollHeight - scrollTop - clientHeight < 40;
      }}
    >
      {state.messages.length === 0 && <Empty chat={chat} options={options} />}
      {state.messages.map((m) =>
        m.from === "user" ? (
          <div key={m.id} class="asked" dir="auto">
            <span class="unseen">You: </span>
            {m.text}
          </div>
        ) : (
          <Answer key={m.id} m={m} chat={chat} phase={m === last ? state.phase : "idle"} last={m === last} />
        ),
      )}
    </div>
  );
}

function Empty({ chat, options }: { chat: Chat; options: Options }) {
  return (
    <div class="empty">
      <span class="mark" aria-hidden="true">
        <Icon name="spark" />
      </span>
      <p dir="auto">{options.greeting ?? "What can I do for you?"}</p>
      <p class="small" dir="auto">Nothing is changed before you have confirmed it.</p>
      {options.suggestions && options.suggestions.length > 0 && (
        <ul>
          {options.suggestions.slice(0, 6).map((s) => (
            <li key={s}>
              <button type="button" class="suggestion" dir="auto" onClick={() => !chat.busy && chat.send(s)}>
                {s}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const phases = {
  idle: "",
  "signing-in": "Waiting for your sign-in…",
  connecting: "Connecting…",
  working: "Working…",
  reconnecting: "The connection was lost. It goes on when it is back.",
  stopping: "Stopping…",
} as const;

const Answer = memo(function Answer({ m, chat, phase, last }: { m: Message; chat: Chat; phase: State["phase"]; last: boolean }) {
  const hidden = m.state === "working" && mayBeCard(m.text);
  const text = hidden ? "" : m.text;
  const status = phase === "working" ? (hidden ? "Preparing a change for you to confirm…" : text === "" ? phases.working : "") : phases[phase];
  return (
    <article class="answer" data-state={m.state}>
      <span class="unseen">Assistant: </span>
      {m.actions && m.actions.length > 0 && <Actions list={m.actions} open={m.state === "working"} />}
      {text !== "" && <Markdown text={text} streaming={m.state === "working"} />}
      {m.card && <Card card={m.card} onConfirm={(id) => chat.confirm(id)} onCancel={(id) => chat.cancel(id)} onSettle={(id, outcome) => chat.settle(id, outcome)} />}
      {status !== "" && (
        <p class={phase === "reconnecting" ? "status lost" : "status"}>
          <span class="spinner" aria-hidden="true" />
          <span>{status}</span>
          {phase === "reconnecting" && (
            <button type="button" class="link" onClick={() => chat.hurry()}>
              Try now
            </button>
          )}
        </p>
      )}
      {m.error && <p class="error">{m.error}</p>}
      {!m.error && m.state === "stopped" && <p class="error quiet">Stopped.</p>}
      {!m.error && m.state === "cut" && <p class="error">The answer is not complete.</p>}
      {last && phase === "idle" && (m.state === "failed" || m.state === "cut") && (
        <button type="button" class="again" onClick={() => chat.again()}>
          Try again
        </button>
      )}
    </article>
  );
});

/** What the agent has called. Many are folded once it is done. */
function Actions({ list, open }: { list: readonly Action[]; open: boolean }) {
  const failed = list.filter((a) => a.state === "failed").length;
  const rows = (
    <ul class="actions" aria-label="What the assistant did">
      {list.map((a, i) => (
        <li key={i} data-state={a.state}>
          {a.state === "started" ? <span class="spinner" aria-hidden="true" /> : <Icon name={a.state === "completed" ? "check" : "alert"} />}
          <Label action={a} />
          <span class="unseen">{a.state === "started" ? ", under way" : a.state === "completed" ? ", done" : ", failed"}</span>
        </li>
      ))}
    </ul>
  );
  if (open || list.length <= 3) return rows;
  return (
    <details class="fold">
      <summary>
        {list.length} requests{failed > 0 && `, ${failed} failed`}
      </summary>
      {rows}
    </details>
  );
}

function Label({ action }: { action: Action }) {
  const [, method, path] = /^([A-Z]{3,7}) (\S.*)$/.exec(action.label) ?? [];
  if (!method || action.command) return <code dir="ltr">{action.label}</code>;
  return (
    <code dir="ltr">
      <b data-method={method}>{method}</b> {path}
    </code>
  );
}
