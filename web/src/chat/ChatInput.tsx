import { useEffect, useLayoutEffect, useRef, useState } from "react";

import { ArrowUp, Clip, Stop } from "../ui/icons.tsx";
import type { Attachment, BusyMode, ResourceRef } from "../api/types.gen.ts";
import { putBackEvent } from "./AgentMessage.tsx";
import { ToAttach } from "./Attached.tsx";
import { Entities } from "./Entities.tsx";
import { ToSend } from "./Files.tsx";
import { ResourceMenu, useResources } from "./ResourceMenu.tsx";
import { Settings } from "./settings/Settings.tsx";
import { SlashMenu, useSlash } from "./SlashMenu.tsx";
import type { Draft } from "./state.ts";
import { settled } from "./uploads.ts";
import { useUploads } from "./use-uploads.ts";
import { useActions, useChat } from "./use-chat.ts";
import type { Waiting } from "./waiting.ts";

interface Props {
  session: string;
  streaming: boolean;
  /** The turn waits for an answer: a message answers too, unless it is queued after the turn. */
  waiting: Waiting | undefined;
  /** The queue continues with the next message. */
  held: boolean;
  stopping: boolean;
  /** Nothing can be sent now, for another reason. */
  blocked: boolean;
  onSend(text: string, busy: BusyMode | undefined, attached: readonly ResourceRef[], files: readonly Attachment[]): void;
  onStop(): void;
}

const mostRows = 5;
const rowHeight = 24;

/** What is not sent, by session. */
const drafts = new Map<string, Draft>();

export function ChatInput({ session, streaming, waiting, held, stopping, blocked, onSend, onStop }: Props) {
  const { placeholder } = useActions().words;
  const [text, setText] = useState(() => drafts.get(session)?.text ?? "");
  const [caret, setCaret] = useState(text.length);
  const moveTo = useRef<number>(undefined);
  const area = useRef<HTMLTextAreaElement>(null);
  const stop = useRef<HTMLButtonElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const [later, setLater] = useState(false);
  const asks = waiting !== undefined && !waiting.closes;
  const after = later && waiting?.canQueue === true;
  const files = useUploads(session);
  const ready = text.trim() !== "" && !streaming && !blocked && settled(files.uploads);

  const slash = useSlash(text, setText);
  const resources = useResources(text, caret, (text, caret) => {
    setText(text);
    setCaret(caret);
    moveTo.current = caret;
  }, drafts.get(session)?.attached);
  const { attached, setAttached } = resources;

  useEffect(() => {
    drafts.set(session, { text, attached });
  }, [session, text, attached]);

  useLayoutEffect(() => {
    const a = area.current;
    if (!a) return;
    a.style.height = "auto";
    a.style.height = `${Math.min(a.scrollHeight, mostRows * rowHeight)}px`;
    a.style.overflowY = a.scrollHeight > mostRows * rowHeight ? "auto" : "hidden";
    if (moveTo.current !== undefined) a.setSelectionRange(moveTo.current, moveTo.current);
    moveTo.current = undefined;
  }, [text]);

  // A disabled field loses the focus. The focus goes to the form, one Tab before the stop
  // button, and not to the button itself: somebody who keeps typing must not stop the answer
  // with the first space. It returns when the answer is there, unless the person has moved it
  // elsewhere.
  const had = useRef(false);
  useEffect(() => {
    const focused = document.activeElement;
    if (streaming) {
      if (had.current) form.current?.focus({ preventScroll: true });
    } else if (had.current && (focused === document.body || focused === null || focused === form.current || focused === stop.current)) {
      area.current?.focus({ preventScroll: true });
    }
  }, [streaming]);

  useEffect(() => {
    const putBack = (e: Event) => {
      const { text, attached, files: had = [] } = (e as CustomEvent<Draft>).detail;
      setText(text);
      setAttached(attached);
      files.put(had);
      requestAnimationFrame(() => area.current?.focus());
    };
    addEventListener(putBackEvent, putBack);
    return () => removeEventListener(putBackEvent, putBack);
  }, [setAttached, files.put]);

  const back = useChat((s) => s.opened.back);
  const field = useChat((s) => s.problem?.field);
  const wrong = back && attached === back.attached ? Number(/^resources\[(\d+)\]/.exec(field ?? "")?.[1] ?? -1) : undefined;
  useEffect(() => {
    if (!back) return;
    setText((text) => (text === "" ? back.text : `${back.text}\n\n${text}`)); // the box was open if the queue is held
    setAttached(back.attached);
    files.put(back.files ?? []);
  }, [back, setAttached, files.put]);

  useEffect(() => {
    if (!matchMedia("(hover: none)").matches) area.current?.focus({ preventScroll: true });
  }, []);

  const submit = () => {
    if (!ready) return;
    const message = slash.expand(text.trim());
    if (message === undefined) return setText(""); // the page has done it
    had.current = !matchMedia("(hover: none)").matches;
    onSend(message, asks ? (after ? "enqueue" : "steer") : undefined, attached, files.take());
    setText("");
    setAttached([]);
    setLater(false);
  };

  return (
    <>
    <form
      ref={form}
      tabIndex={-1}
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
      onKeyDown={(e) => {
        if (!streaming || e.target !== form.current) return;
        if (e.key === "Escape" && !stopping) onStop();
        if (e.key === " ") e.preventDefault(); // it would scroll the page
      }}
      className="rounded-[12px] border border-border bg-surface outline-none transition-colors has-[textarea:focus]:border-accent/60"
    >
      <SlashMenu slash={slash} />
      <ResourceMenu resources={resources} onFilled={() => area.current?.focus()} />
      {waiting && <Intent waiting={waiting} after={after} onAfter={setLater} />}
      {held && (
        <p id="message-does" className="border-b border-border px-4 py-1.5 text-[13px] leading-5 text-text-muted">
          The messages above are on hold, because the answer before them did not finish. Your next message releases them and comes after them.
        </p>
      )}
      <Entities />
      <ToAttach
        resources={attached}
        wrong={wrong}
        onRemove={(r) => {
          setAttached(attached.filter((a) => a !== r));
          area.current?.focus();
        }}
      />
      <ToSend
        uploads={files.uploads}
        onRemove={(key) => {
          files.remove(key);
          area.current?.focus();
        }}
        onRetry={files.retry}
      />
      {files.over && (
        <p aria-hidden className="pointer-events-none fixed inset-0 z-40 m-3 flex items-center justify-center rounded-2xl border-2 border-dashed border-accent bg-bg/85 text-lg font-medium">
          Drop files to attach them
        </p>
      )}
      <div className="flex items-end gap-2 py-1.5 pr-1.5 pl-1.5">
      {!streaming && (
        <>
          <button
            type="button"
            aria-label="Attach files"
            title="Attach files"
            onClick={() => files.input.current?.click()}
            className="inline-flex size-9 shrink-0 items-center justify-center rounded-lg text-text-muted -outline-offset-1 hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:size-11"
          >
            <Clip />
          </button>
          <input ref={files.input} type="file" multiple tabIndex={-1} aria-hidden className="hidden" onChange={files.chosen} />
        </>
      )}
      <label htmlFor="message" className="sr-only">
        Message
      </label>
      <textarea
        id="message"
        ref={area}
        rows={1}
        value={text}
        disabled={streaming}
        aria-describedby={waiting || held ? "message-does" : undefined}
        {...slash.field}
        {...resources.field}
        onPaste={files.pasted}
        placeholder={streaming ? (stopping ? "Stopping…" : "Wait for the answer, or stop it") : asks ? (after ? "What to do after this" : "What to do instead") : placeholder}
        onChange={(e) => {
          setText(e.currentTarget.value);
          setCaret(e.currentTarget.selectionStart);
        }}
        onSelect={(e) => setCaret(e.currentTarget.selectionStart)}
        onKeyDown={(e) => {
          if (slash.onKey(e) || resources.onKey(e)) return;
          // Enter also commits a word in Japanese and Chinese input methods.
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
            e.preventDefault();
            submit();
          }
        }}
        className="my-1.5 block w-full min-w-0 flex-1 resize-none [@media(pointer:coarse)]:my-2.5 bg-transparent text-base leading-6 outline-none placeholder:text-text-muted disabled:cursor-not-allowed"
      />
      {(streaming || asks || held) && (
        <button
          key="stop" // another element than the one to send, so that the focus does not slip from one to the other
          ref={stop}
          type="button"
          aria-label={stopping ? "Stopping" : "Stop"}
          title={stopping ? "Stopping…" : "Stop"}
          aria-disabled={stopping}
          onClick={() => !stopping && onStop()}
          className={`inline-flex size-9 shrink-0 [@media(pointer:coarse)]:size-11 items-center justify-center rounded-lg border border-border text-text-primary -outline-offset-1 hover:bg-hover ${stopping ? "animate-pulse-soft" : ""}`}
        >
          <Stop />
        </button>
      )}
      {!streaming && (
        <button
          key="send"
          type="submit"
          aria-label={asks ? (after ? "Ask after this" : waiting.action) : "Send"}
          title={asks ? (after ? "Ask after this (Enter)" : `${waiting.action} (Enter)`) : "Send (Enter)"}
          disabled={!ready}
          className="inline-flex size-9 shrink-0 [@media(pointer:coarse)]:size-11 items-center justify-center rounded-lg transition-colors enabled:bg-accent enabled:text-on-accent enabled:hover:bg-accent-hover disabled:text-text-muted"
        >
          <ArrowUp />
        </button>
      )}
      </div>
    </form>
    <Settings />
    </>
  );
}

/** What the message will do while something above waits, and the choice if there is one. */
function Intent({ waiting, after, onAfter }: { waiting: Waiting; after: boolean; onAfter(after: boolean): void }) {
  const choice = "cursor-pointer rounded-md px-2 py-0.5 [@media(pointer:coarse)]:py-3 has-checked:bg-bubble has-checked:text-text-primary has-focus-visible:outline-2 has-focus-visible:outline-focus";
  return (
    <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-border px-4 py-1.5 text-[13px] leading-5 text-text-muted">
      <p id="message-does" className="min-w-0">
        {after ? "Your message waits until this is done. What is asked above stays open." : waiting.says}
      </p>
      {waiting.canQueue && (
        <fieldset className="-mx-2 flex shrink-0 gap-1">
          <legend className="sr-only">What your message does</legend>
          {[false, true].map((is) => (
            <label key={String(is)} className={choice}>
              <input type="radio" name="message-intent" className="sr-only" checked={after === is} onChange={() => onAfter(is)} />
              {is ? "After this" : "Instead"}
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}
