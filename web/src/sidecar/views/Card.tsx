/** @jsxImportSource preact */
// A write that waits for the person: the agent's words about it, and apart from them the request as it will be sent.

import { useEffect, useState } from "preact/hooks";

import { inLines, visible, type Card as It, type CardState, type Outcome } from "../card.ts";
import { Icon, type IconName } from "./icons.tsx";

const states: Record<Exclude<CardState, "open">, { icon: IconName; text: string }> = {
  sent: { icon: "clock", text: "Confirmed, and being sent…" },
  done: { icon: "check", text: "Done" },
  failed: { icon: "alert", text: "The API refused it: nothing was changed" },
  refused: { icon: "alert", text: "Not sent" },
  unknown: { icon: "question", text: "It may have been done or not. Check before you ask again." },
  expired: { icon: "clock", text: "Expired: nothing was sent" },
  cancelled: { icon: "minus", text: "Cancelled: nothing was sent" },
};

interface Props {
  card: It;
  onConfirm: (id: string) => void;
  onCancel: (id: string) => void;
  onSettle: (id: string, outcome: Outcome) => void;
}

export function Card({ card, onConfirm, onCancel, onSettle }: Props) {
  const id = `card-${card.id.replace(/[^\w-]/g, "_")}`;
  const open = card.state === "open";
  const is = card.state === "open" ? undefined : states[card.state];
  const danger = card.method === "DELETE";
  return (
    <section class="card" data-state={card.state} role="group" aria-labelledby={id}>
      <header>
        <Icon name="shield" />
        <span>{open ? "Confirm this change" : "Change"}</span>
        {open && card.expires !== undefined && <Left until={card.expires} />}
      </header>
      <h3 id={id} dir="auto">
        {visible(card.title) || `${card.method} ${visible(card.path)}`}
      </h3>
      {card.summary !== "" && <p dir="auto">{visible(card.summary)}</p>}
      {open || card.state === "sent" ? (
        <Request card={card} />
      ) : (
        <details class="fold" dir="ltr">
          <summary>
            <code>
              <b data-method={card.method}>{card.method}</b> {visible(card.path)}
            </code>
          </summary>
          <Request card={card} />
        </details>
      )}
      {open && (
        <div class="buttons">
          <button type="button" class="plain" onClick={() => onCancel(card.id)}>
            Cancel
          </button>
          <button type="button" class={danger ? "go danger" : "go"} onClick={() => onConfirm(card.id)}>
            Confirm
          </button>
        </div>
      )}
      {is && (
        <p class="outcome" data-state={card.state}>
          {card.state === "sent" ? <span class="spinner" aria-hidden="true" /> : <Icon name={is.icon} />}
          <span>
            {is.text}
            {card.note && <small>{card.note}</small>}
          </span>
        </p>
      )}
      {card.state === "unknown" && card.asks !== undefined && (
        <div class="buttons">
          <button type="button" class="plain" onClick={() => onSettle(card.id, "did_not")}>
            It was not done
          </button>
          <button type="button" class="plain" onClick={() => onSettle(card.id, "happened")}>
            It was done
          </button>
        </div>
      )}
    </section>
  );
}

function Request({ card }: { card: It }) {
  const size = card.body === undefined ? 0 : new TextEncoder().encode(card.body).length;
  return (
    <div class="request" dir="ltr">
      <p class="small">{card.state === "open" ? "Exactly this will be sent:" : "The request:"}</p>
      <code class="line">
        <b data-method={card.method}>{card.method}</b> {visible(card.path)}
      </code>
      {card.body === undefined ? (
        <p class="small">without a body</p>
      ) : (
        <>
          <pre tabIndex={0} role="region" aria-label="Body of the request">
            {visible(inLines(card.body))}
          </pre>
          <p class="small">
            JSON, {size.toLocaleString("en")} {size === 1 ? "byte" : "bytes"}
          </p>
        </>
      )}
    </div>
  );
}

/** How long it can be confirmed. */
function Left({ until }: { until: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const s = Math.max(0, Math.round((until - now) / 1000));
  const text = s >= 3600 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
  return (
    <time class="left" title={new Date(until).toLocaleTimeString()}>
      <span class="unseen">can be confirmed for </span>
      {text}
    </time>
  );
}
