import { useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { useStore } from "zustand";

import { Button, IconButton } from "../../ui/button.tsx";
import { Alert, Chevron, Close } from "../../ui/icons.tsx";
import { ago, sentence } from "../../ui/text.ts";
import { useNow } from "../../ui/use-now.ts";
import { onVisibility } from "../../ui/visibility.ts";
import { found } from "./entities.ts";
import { EntityRow } from "./EntityRow.tsx";
import { showPanel, useHome, useHouse } from "./use-home.ts";

/** The house by area, live. */
export default function EntityPanel({ bare = false }: { bare?: boolean }) {
  const { entities, panel } = useHome();
  const house = useHouse((h) => h);
  const wanted = useStore(panel, (s) => s.wanted);
  const [text, setText] = useState("");
  const words = useDeferredValue(text);
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const groups = useMemo(() => found(house, words), [house, words]);
  const now = useNow(30_000);

  useEffect(() => {
    entities.start();
    const end = onVisibility(
      () => entities.close(),
      () => entities.start(),
    );
    return () => {
      end();
      entities.close();
    };
  }, [entities]);

  // The wanted entity may be in a closed area, or hidden by the search.
  useEffect(() => {
    if (!wanted) return;
    const area = entities.store.getState().areas.find((a) => a.entities.includes(wanted.id));
    setText("");
    if (area) setClosed((c) => new Set([...c].filter((id) => id !== area.id)));
  }, [wanted, entities]);

  const toggle = (id: string) =>
    setClosed((c) => {
      const next = new Set(c);
      if (!next.delete(id)) next.add(id);
      return next;
    });

  return (
    <div className="flex h-full min-h-0 flex-col">
      {!bare && (
        <header className="flex h-13 shrink-0 items-center gap-2 pr-2 pl-4">
          <h2 className="flex-1 text-sm font-semibold">House</h2>
          <IconButton label="Hide the house" onClick={() => showPanel(panel, false)}>
            <Close />
          </IconButton>
        </header>
      )}
      {house.phase === "ready" && (
        <div className="px-3 pb-2">
          <input
            type="search"
            aria-label="Search the house"
            placeholder={`Search ${house.entities.size} entities`}
            value={text}
            onChange={(e) => setText(e.currentTarget.value)}
            className="h-9 w-full [@media(pointer:coarse)]:h-11 rounded-lg border border-border bg-bg px-3 text-sm"
          />
        </div>
      )}
      <Freshness now={now} />
      <div className="relative min-h-0 flex-1 overflow-y-auto pb-4">
        {house.phase === "loading" && <p className="px-4 py-3 text-sm text-text-muted">Reading the house…</p>}
        {house.phase === "failed" && <Away />}
        {house.phase === "ready" && wanted && !house.entities.has(wanted.id) && (
          <p className="px-4 py-2 text-sm text-text-muted">
            <span className="font-mono text-[13px] text-text-primary">{wanted.id}</span> is not in the house now.
          </p>
        )}
        {house.phase === "ready" && groups.length === 0 && (
          <p className="px-4 py-3 text-sm text-text-muted">{words.trim() === "" ? "The house has no entities yet." : "Nothing in the house is called that."}</p>
        )}
        {groups.map(({ area, entities: own }) => {
          const open = words.trim() !== "" || !closed.has(area.id);
          return (
            <section key={area.id} aria-label={area.name || "Without an area"}>
              <h3>
                <button
                  type="button"
                  aria-expanded={open}
                  onClick={() => toggle(area.id)}
                  className="flex w-full items-center gap-2 px-4 py-1.5 [@media(pointer:coarse)]:py-3.5 text-left text-xs font-semibold tracking-wide text-text-muted uppercase -outline-offset-2 hover:text-text-primary"
                >
                  <span className={`transition-transform ${open ? "rotate-90" : ""}`}>
                    <Chevron size={12} />
                  </span>
                  <span className="min-w-0 flex-1 truncate">{area.name || "Without an area"}</span>
                  <span className="font-normal tabular-nums">{own.length}</span>
                </button>
              </h3>
              {open && (
                <ul>
                  {own.map((e) => (
                    <EntityRow key={e.entity_id} entity={e} area={area.name} history={house.histories.get(e.entity_id)} now={now} wantedAt={wanted?.id === e.entity_id ? wanted.at : 0} />
                  ))}
                </ul>
              )}
            </section>
          );
        })}
      </div>
    </div>
  );
}

/** Shows nothing while all is current, and waits a moment before it reports a problem. */
function Freshness({ now }: { now: number }) {
  const { entities } = useHome();
  const cut = useHouse((h) => h.phase === "ready" && !h.connected);
  const freshAt = useHouse((h) => h.freshAt);
  const [shown, setShown] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    clearTimeout(timer.current);
    if (cut) timer.current = setTimeout(() => setShown(true), 1200);
    else setShown(false);
    return () => clearTimeout(timer.current);
  }, [cut]);
  return (
    <div role="status">
      {cut && shown && (
        <p className="mx-3 mb-2 flex items-center gap-2 rounded-lg border border-border bg-bg px-3 py-2 text-[13px] text-text-muted">
          <span className="size-1.5 shrink-0 animate-pulse-soft rounded-full bg-accent" aria-hidden="true" />
          <span className="min-w-0 flex-1">
            Nothing is heard from the house. The states are from {ago(new Date(freshAt).toISOString(), now)}.
          </span>
          <button type="button" className="shrink-0 rounded px-1 underline underline-offset-2 hover:text-text-primary" onClick={() => entities.retry()}>
            Now
          </button>
        </p>
      )}
    </div>
  );
}

/** Shown if the entities are not available; the chat still works. */
function Away() {
  const { entities } = useHome();
  const error = useHouse((h) => h.error);
  const missing = error?.status === 404;
  return (
    <div role="alert" className="m-3 rounded-xl border border-border bg-bg px-4 py-3 text-sm">
      <p className="flex gap-2.5">
        <span className="mt-0.5 text-text-muted">
          <Alert size={16} />
        </span>
        <span className="min-w-0 wrap-anywhere">
          {missing ? "This server does not show the entities of a house." : "The entities of the house cannot be read now."}{" "}
          <span className="text-text-muted">{missing ? "Conversations work without it." : `${sentence(error?.message)} ${sentence(error?.hint)}`}</span>
        </span>
      </p>
      <Button className="mt-3" onClick={() => entities.retry()}>
        Try again
      </Button>
    </div>
  );
}
