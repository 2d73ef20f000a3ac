import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";

import { toApiError, type ApiError, type FailedServer, type Resource, type ResourceList } from "../api/client.ts";
import type { ResourceRef } from "../api/types.gen.ts";
import { Button } from "../ui/button.tsx";
import { Alert, File } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { count, sentence } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import { pageOf } from "./interaction/logic.ts";
import { expanded, isAmong, mentionAt, mostAttached, nameIn, offered, valuesOf, without } from "./mention.ts";
import { useActions, useChat } from "./use-chat.ts";

/** How many are drawn. A person who looks for another one types more. */
const mostShown = 50;
/** Most lists arrive sooner, and a note that one is loading would only flicker. */
const quiet = 250;
/** From then on a list takes long, and it is said why. */
const slow = 2000;

/** What a message has of a resource that its server lists. */
function refTo({ server, uri, name }: Resource): ResourceRef {
  const title = oneLine(name, 100);
  return { server, uri, ...(title && { title }) };
}

/** What a message has of a template that was filled. The title names the values too, because they tell two of them apart. */
function filledRef(r: Resource, values: Readonly<Record<string, string>>): ResourceRef {
  const given = valuesOf(r.uri).flatMap((n) => values[n] || []);
  return refTo({ ...r, uri: expanded(r.uri, values), name: r.name && `${r.name}: ${given.join(", ")}` });
}

/** The resources offered after an "@" in the message. */
export function useResources(text: string, caret: number, setText: (text: string, caret: number) => void, before: readonly ResourceRef[] = []) {
  const chat = useActions();
  const session = useChat((s) => s.opened.id);
  const [attached, setAttached] = useState(before);
  const [list, setList] = useState<ResourceList>();
  const [error, setError] = useState<ApiError>();
  /** When the servers were asked, while they have not answered. */
  const [askedAt, setAskedAt] = useState<number>();
  const [again, setAgain] = useState(0);
  const [at, setAt] = useState(0);
  const [closed, setClosed] = useState<number>();
  const [filling, setFilling] = useState<Resource>();

  const mention = useMemo(() => mentionAt(text, caret), [text, caret]);
  const begun = mention !== undefined;
  useEffect(() => {
    if (!begun) {
      setClosed(undefined);
      return;
    }
    // Servers change what they offer, so they are asked each time somebody begins to write a mention.
    const away = new AbortController();
    setError(undefined);
    setAskedAt(Date.now());
    chat
      .resources(away.signal)
      .then(setList, (cause: unknown) => away.signal.aborted || setError(toApiError(cause)))
      .finally(() => away.signal.aborted || setAskedAt(undefined));
    return () => {
      away.abort();
      setAskedAt(undefined);
    };
  }, [chat, session, begun, again]);
  // Whoever has logged in elsewhere comes back to a list that is no longer true.
  const toLogIn = begun && (list?.failed.some((f) => f.login) ?? false);
  useEffect(() => {
    if (!toLogIn) return;
    const back = () => setAgain((n) => n + 1);
    addEventListener("focus", back);
    return () => removeEventListener("focus", back);
  }, [toLogIn]);

  const open = mention !== undefined && mention.from !== closed && !filling;
  const all = useMemo(() => (mention && list ? offered(mention.typed, list.resources, attached) : []), [mention, list, attached]);
  const full = attached.length >= mostAttached;
  const found = open && !full ? all.slice(0, mostShown) : [];
  const chosen = Math.min(at, found.length - 1);

  const attach = (r: ResourceRef) => {
    if (!isAmong(r, attached)) setAttached([...attached, r]);
  };
  const choose = (r: Resource | undefined) => {
    if (!r || !mention) return;
    setAt(0);
    const rest = without(text, mention);
    setText(rest.text, rest.caret);
    if (r.template && valuesOf(r.uri).length > 0) setFilling(r);
    else attach(refTo(r));
  };

  return {
    attached,
    setAttached,
    found,
    chosen,
    choose,
    filling,
    fill(values: Readonly<Record<string, string>> | undefined) {
      if (filling && values) attach(filledRef(filling, values));
      setFilling(undefined);
    },
    more: open && !full ? all.length - found.length : 0,
    notes: open ? { askedAt, full, error, failed: list?.failed ?? [], cut: (list?.cut ?? false) && mention.typed !== "" && all.length === 0 } : undefined,
    onKey(e: KeyboardEvent): boolean {
      if (!open || e.nativeEvent.isComposing) return false;
      const r = found[chosen];
      const complete = r !== undefined && !r.template && mention.typed === `${r.server}:${r.uri}`;
      if (e.key === "Escape") setClosed(mention.from);
      else if (!r) return false;
      else if (e.key === "ArrowDown" || e.key === "ArrowUp") setAt((chosen + (e.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
      else if (e.key === "Tab" && !e.shiftKey) choose(r);
      else if (e.key === "Enter" && !e.shiftKey && !complete) choose(r);
      else return false;
      e.preventDefault();
      return true;
    },
    field: found.length > 0 ? ({ "aria-controls": "resources", "aria-activedescendant": `resource-${chosen}`, "aria-autocomplete": "list" } as const) : {},
  };
}

type Offered = ReturnType<typeof useResources>;

export function ResourceMenu({ resources, onFilled }: { resources: Offered; onFilled(): void }) {
  const { found, chosen, choose, filling, more, notes } = resources;
  if (filling) {
    const done = (values: Readonly<Record<string, string>> | undefined) => {
      resources.fill(values);
      onFilled();
    };
    return <Values key={filling.uri} of={filling} onDone={done} />;
  }
  return (
    <>
      {found.length > 0 && (
        <ul id="resources" role="listbox" aria-label="Resources" tabIndex={0} className="relative max-h-64 overflow-y-auto border-b border-border p-1 text-sm">
          {found.map((r, i) => (
            <li
              key={`${r.server} ${r.uri}`}
              id={`resource-${i}`}
              role="option"
              aria-selected={i === chosen}
              ref={(e) => {
                if (i === chosen) e?.scrollIntoView({ block: "nearest" });
              }}
              onPointerDown={(e) => e.preventDefault()} // the focus stays in the field
              onClick={() => choose(r)}
              className="flex cursor-pointer items-start gap-2.5 rounded-lg px-2.5 py-1.5 hover:bg-hover aria-selected:bg-hover [@media(pointer:coarse)]:py-2"
            >
              <span className="mt-0.5 text-text-muted">
                <File size={16} />
              </span>
              <span className="min-w-0 flex-1">
                <span className="flex gap-3">
                  <bdi className="min-w-0 flex-1 truncate">{oneLine(r.name || nameIn(r.uri), 100)}</bdi>
                  <span className="max-w-40 shrink-0 truncate text-[13px] text-text-muted">{r.server}</span>
                </span>
                <span className="block truncate text-[13px] leading-5 text-text-muted">
                  <code className="font-mono text-xs">{oneLine(r.uri, 200)}</code>
                  {r.description && ` · ${oneLine(r.description, 200)}`}
                </span>
              </span>
            </li>
          ))}
        </ul>
      )}
      <div role="status" className="text-[13px] leading-5 text-text-muted">
        {notes?.askedAt !== undefined && <Asking since={notes.askedAt} />}
        {notes?.full && <p className="border-b border-border px-4 py-1.5">A message may have {mostAttached} resources.</p>}
        {more > 0 && <p className="border-b border-border px-4 py-1.5">{count(more)} more. Type a part of the name to find them.</p>}
        {notes?.cut && <p className="border-b border-border px-4 py-1.5">Not all resources are listed. Write one as @server:uri to attach it.</p>}
        {notes?.error && <Failed text={notes.error.message} hint={notes.error.hint} />}
        {notes?.failed.map((f) => (
          <Failed key={f.server} text={f.error.message} hint={f.error.hint} login={f.login} />
        ))}
      </div>
    </>
  );
}

/** Said while the servers are asked: after a moment that they are, and later for how long. */
function Asking({ since }: { since: number }) {
  const waited = useNow(quiet) - since;
  if (waited < quiet) return null;
  return (
    <p className="flex gap-3 border-b border-border px-4 py-1.5">
      <span className="min-w-0 flex-1">
        <span className="animate-pulse-soft">Asking the MCP servers for their resources…</span>
        {waited >= slow && " One of them may have to start first."}
      </span>
      {waited >= slow && (
        <span aria-hidden className="shrink-0 tabular-nums">
          {Math.floor(waited / 1000)} s
        </span>
      )}
    </p>
  );
}

function Failed({ text, hint, login }: { text: string; hint?: string | undefined; login?: FailedServer["login"] }) {
  const page = pageOf(login);
  return (
    <div className="flex gap-2 border-b border-border px-4 py-1.5">
      <span className="mt-0.5 text-danger">
        <Alert size={16} />
      </span>
      <div className={`min-w-0 wrap-anywhere ${page ? "" : "line-clamp-4"}`}>
        <span className="text-text-primary">{sentence(text)}</span> {sentence(hint)}
        {page && (
          <>
            {" "}
            <a href={page.href} target="_blank" rel="noopener noreferrer" className="reach font-medium text-link underline">
              Log in at {page.host}
            </a>
            {/* As in a question, the whole address can be read before it is opened. */}
            <details>
              <summary className="reach w-fit cursor-pointer">Its address</summary>
              <span className="block font-mono text-xs leading-5">{page.href}</span>
            </details>
          </>
        )}
      </div>
    </div>
  );
}

/** The values that a template needs. It is not a form element, because it is inside the form of the message. */
function Values({ of, onDone }: { of: Resource; onDone(values: Readonly<Record<string, string>> | undefined): void }) {
  const names = valuesOf(of.uri);
  const [values, setValues] = useState<Record<string, string>>({});
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus(), []);
  const uri = expanded(of.uri, values);
  const ready = names.some((n) => values[n]);
  const name = oneLine(of.name || of.uri, 100);
  return (
    <div
      role="group"
      aria-label={`Values for ${name}`}
      onKeyDown={(e) => {
        if (e.nativeEvent.isComposing || (e.key !== "Enter" && e.key !== "Escape") || e.target instanceof HTMLButtonElement) return;
        e.preventDefault();
        e.stopPropagation();
        if (e.key === "Escape") onDone(undefined);
        else if (ready) onDone(values);
      }}
      className="flex max-h-72 flex-col gap-2 overflow-y-auto border-b border-border px-4 py-2.5 text-sm"
    >
      <p className="wrap-anywhere">
        <bdi>{name}</bdi> <span className="text-text-muted">{of.server}</span>
      </p>
      {names.map((n, i) => (
        <label key={n} className="flex items-center gap-3">
          <span className="w-24 shrink-0 truncate font-mono text-[13px] text-text-muted">{n}</span>
          <input
            ref={i === 0 ? first : undefined}
            value={values[n] ?? ""}
            maxLength={500}
            onChange={(e) => setValues({ ...values, [n]: e.currentTarget.value })}
            className="h-9 min-w-0 flex-1 rounded-lg border border-border bg-bg px-2.5 text-base sm:text-sm [@media(pointer:coarse)]:h-11"
          />
        </label>
      ))}
      <code className="font-mono text-xs leading-5 wrap-anywhere text-text-muted">{oneLine(uri, 300)}</code>
      <div className="flex justify-end gap-2">
        <Button kind="quiet" onClick={() => onDone(undefined)}>Cancel</Button>
        <Button kind="accent" disabled={!ready} onClick={() => onDone(values)}>Attach</Button>
      </div>
    </div>
  );
}
