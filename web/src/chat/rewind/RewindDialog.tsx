import { useEffect, useId, useState } from "react";

import { toApiError, type ApiError } from "../../api/client.ts";
import type { FileRewound, RewindResult, RewindWhat } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { readPatch } from "../../ui/diff/diff.ts";
import DiffView from "../../ui/diff/DiffView.tsx";
import { Alert, Chevron } from "../../ui/icons.tsx";
import { oneLine, tame } from "../../ui/tame.ts";
import { sentence } from "../../ui/text.ts";
import { ChangeBox, Counts } from "../changes/Changed.tsx";
import { becomes, effectText, many, sorted, ways } from "./words.ts";

/** To before the message of a turn, or to before another rewind. */
export type Where = { turn: string } | { undo: number };

interface Props {
  where: Where;
  /** The message that it goes back to. */
  message: string;
  /** Asks what a rewind would do, or does it: then with the version that was shown. Throws an ApiError. */
  rewind(where: Where, what: RewindWhat | undefined, version: number | undefined): Promise<RewindResult>;
  onDone(result: RewindResult): void;
  onClose(): void;
}

/** What going back would do, before it does: what comes back, what does not and why, and what stays done. */
export default function RewindDialog({ where, message, rewind, onDone, onClose }: Props) {
  const undo = "undo" in where;
  const [what, setWhat] = useState<RewindWhat>("both");
  const [plan, setPlan] = useState<RewindResult>();
  const [problem, setProblem] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const [asked, setAsked] = useState(0);
  const wish = undo ? undefined : what;

  useEffect(() => {
    let gone = false;
    rewind(where, wish, undefined).then(
      (r) => {
        if (!gone) setPlan(r);
      },
      (cause: unknown) => gone || setProblem(toApiError(cause)),
    );
    return () => {
      gone = true;
    };
    // where is the same as long as the dialog is open.
  }, [wish, asked]);

  const go = async () => {
    if (!plan) return;
    setBusy(true);
    setProblem(undefined);
    try {
      onDone(await rewind(where, wish, plan.version));
    } catch (cause) {
      const e = toApiError(cause);
      setProblem(e);
      setBusy(false);
      // Something has changed meanwhile, so what is shown is not what would be done.
      if (e.code === "conflict") setAsked(asked + 1);
    }
  };
  const touches = sorted(plan?.files).restored.length > 0;
  return (
    <Dialog wide title={undo ? "Undo going back" : "Go back to before this message"} onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm" aria-busy={busy}>
        {message !== "" && <blockquote className="border-l-2 border-border pl-3 wrap-anywhere whitespace-pre-wrap text-text-muted">{oneLine(message, 300)}</blockquote>}
        {!undo && (touches || what !== "both") && <Ways what={what} onWhat={setWhat} />}
        {plan ? <Plan plan={plan} /> : !problem && <p className="animate-pulse-soft text-text-muted">Looking at what would come back…</p>}
        {problem && (
          <p role="alert" className="flex gap-2 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            <span className="mt-0.5 text-danger">
              <Alert size={14} />
            </span>
            <span className="min-w-0 wrap-anywhere">
              {sentence(problem.message)} <span className="text-text-muted">{sentence(problem.hint)}</span>
            </span>
          </p>
        )}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="accent" busy={busy || !plan} onClick={() => void go()}>
            {busy ? "Going back…" : undo ? "Undo it" : "Go back"}
          </Button>
        </div>
        {!undo && <p className="text-xs text-text-muted">Nothing is lost: going back can be undone.</p>}
      </div>
    </Dialog>
  );
}

function Ways({ what, onWhat }: { what: RewindWhat; onWhat(what: RewindWhat): void }) {
  const name = useId();
  return (
    <fieldset className="flex flex-col gap-1">
      <legend className="mb-1 font-medium">What goes back</legend>
      {ways.map((w) => (
        <label key={w.what} className="flex cursor-pointer gap-2.5 rounded-lg px-2 py-1 hover:bg-hover [@media(pointer:coarse)]:min-h-11">
          <input type="radio" name={name} checked={w.what === what} onChange={() => onWhat(w.what)} className="mt-1 accent-accent" />
          <span>
            {w.name}
            <span className="block text-xs text-text-muted">{w.hint}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function Plan({ plan: p }: { plan: RewindResult }) {
  const { restored, left, same } = sorted(p.files);
  const turns = p.turns ?? [];
  const back = p.back ?? [];
  const effects = p.effects ?? [];
  return (
    <>
      {turns.length > 0 && <Messages title={`${many(turns.length + (p.turns_more ?? 0), "message")} ${turns.length === 1 ? "is" : "are"} taken back`} list={turns.map((t) => t.message)} more={p.turns_more ?? 0} />}
      {back.length > 0 && <Messages title={`${many(back.length + (p.back_more ?? 0), "message")} ${back.length === 1 ? "comes" : "come"} back`} list={back.map((t) => t.message)} more={p.back_more ?? 0} />}
      {restored.length > 0 && (
        <section aria-label="Files that are restored">
          <h3 className="mb-1.5 font-medium">{many(restored.length, "file")} {restored.length === 1 ? "is" : "are"} restored</h3>
          <ChangeBox>
            <ul>
              {restored.map((f) => (
                <Restored key={f.path} file={f} first={restored.length === 1} />
              ))}
            </ul>
          </ChangeBox>
        </section>
      )}
      {left.length > 0 && (
        <section aria-label="Files that stay as they are">
          <h3 className="mb-1 font-medium">{many(left.length, "file")} {left.length === 1 ? "stays" : "stay"} as {left.length === 1 ? "it is" : "they are"}</h3>
          <ul className="flex flex-col gap-1">
            {left.map((f) => (
              <li key={f.path} className="wrap-anywhere">
                <bdi>{oneLine(f.path, 300)}</bdi> {f.why && <span className="text-text-muted">{sentence(f.why)}</span>}
              </li>
            ))}
          </ul>
        </section>
      )}
      {same.length > 0 && <p className="text-text-muted">{`${many(same.length, "file")} ${same.length === 1 ? "is" : "are"} already as ${same.length === 1 ? "it was" : "they were"}.`}</p>}
      {(p.files_more ?? 0) > 0 && <p className="text-text-muted">{many(p.files_more ?? 0, "further file")} {p.files_more === 1 ? "is" : "are"} not listed here.</p>}
      {effects.length > 0 && (
        <section aria-label="What stays done" className="rounded-lg border border-border bg-surface px-3.5 py-2.5">
          <h3 className="mb-1 font-medium">This stays done</h3>
          <ul className="flex list-disc flex-col gap-0.5 pl-4 text-text-muted">
            {effects.map((e) => (
              <li key={e.call} className="wrap-anywhere">{tame(effectText(e))}</li>
            ))}
            {(p.effects_more ?? 0) > 0 && <li>{many(p.effects_more ?? 0, "more", "more")}</li>}
          </ul>
        </section>
      )}
      {turns.length + back.length + (p.files?.length ?? 0) + effects.length === 0 && <p className="text-text-muted">Nothing has happened since then.</p>}
    </>
  );
}

function Messages({ title, list, more }: { title: string; list: readonly string[]; more: number }) {
  return (
    <section>
      <h3 className="mb-1 font-medium">{title}</h3>
      <ol className="flex flex-col gap-0.5 text-text-muted">
        {list.slice(0, 6).map((m, i) => (
          <li key={i} className="truncate">“{oneLine(m, 160)}”</li>
        ))}
        {list.length + more > 6 && <li>and {many(list.length + more - 6, "more", "more")}</li>}
      </ol>
    </section>
  );
}

const whats = { created: "comes back", changed: "", deleted: "is deleted" } as const;

/** A file that is restored; how it changes can be unfolded. */
function Restored({ file: f, first }: { file: FileRewound; first: boolean }) {
  const [open, setOpen] = useState(first);
  const id = useId();
  const diff = open ? readPatch(f.diff ?? "") : undefined;
  const what = whats[becomes(f)];
  return (
    <li className="border-t border-border first:border-t-0">
      <button type="button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)} className="flex min-h-9 w-full items-center gap-2 px-3 py-1.5 text-left [@media(pointer:coarse)]:min-h-11">
        <span className={`text-text-muted transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={14} />
        </span>
        <bdi className="min-w-0 wrap-anywhere">{oneLine(f.path, 300)}</bdi>
        {what !== "" && <span className="shrink-0 text-text-muted">{what}</span>}
        <Counts added={f.added ?? 0} removed={f.removed ?? 0} />
      </button>
      <div id={id} hidden={!open} className="border-t border-border">
        {open && (diff ? <DiffView diff={diff} name={oneLine(f.path, 120)} /> : <p className="px-3.5 py-2.5 text-text-muted">{f.added || f.removed ? "This change is too large to be shown here." : "It is no text, or too large to be shown."}</p>)}
      </div>
    </li>
  );
}
