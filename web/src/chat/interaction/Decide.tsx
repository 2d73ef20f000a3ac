import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";

import { limits, type Answer, type Interaction } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { LongText } from "../../ui/long-text.tsx";
import { tameCode } from "../../ui/tame.ts";
import { sentence } from "../../ui/text.ts";
import { Fields } from "./Fields.tsx";
import { choicesOf, effectsOf, fieldsOf, labelOf, parseInput, type Sending } from "./logic.ts";

/** The words of a call have room for a few things: where they leave some out, the call is shown as it is. */
const saysLess = (title: string): boolean => /\b\d+ more\b|…/.test(title);

interface Props {
  interaction: Interaction;
  busy: boolean;
  refused: Extract<Sending, { state: "refused" }> | undefined;
  onAnswer(answer: Answer): void;
}

/** The call, and a button for each possible decision. A no may have a reason; a yes may change the input. */
export function Decide({ interaction: i, busy, refused, onAnswer }: Props) {
  const [way, setWay] = useState<"" | "deny" | "edit">("");
  const choices = choicesOf(i);
  const [text, setText] = useState(() => JSON.stringify(i.input ?? {}, null, 2));
  const [broken, setBroken] = useState("");
  const back = useRef<HTMLDivElement>(null);
  const opened = useRef(false);
  const atInput = refused?.field === "input" ? refused : undefined;
  const editable = i.kind === "permission" && choices.includes("allow") && i.input !== undefined;

  const leave = () => setWay("");
  useEffect(() => {
    // The focus returns to the buttons when a field is closed.
    if (way === "" && opened.current) back.current?.querySelector("button")?.focus();
    opened.current = way !== "";
  }, [way]);
  const escape = (e: KeyboardEvent) => {
    if (e.key !== "Escape") return;
    e.preventDefault();
    leave();
  };
  const allowEdited = (choice: string) => {
    const parsed = parseInput(text);
    setBroken("error" in parsed ? parsed.error : "");
    if ("value" in parsed) onAnswer({ choice, input: parsed.value });
  };

  if (way === "edit") {
    const problem = broken || (atInput ? `${sentence(atInput.message)} ${sentence(atInput.hint)}`.trim() : "");
    return (
      <div className="flex flex-col gap-3" onKeyDown={escape}>
        <Editor text={text} problem={problem} busy={busy} onChange={(t) => (setText(t), setBroken(""))} />
        <div className="flex flex-wrap gap-2">
          <Button kind="accent" busy={busy} onClick={() => allowEdited("allow")}>
            Allow with this input
          </Button>
          <Button kind="quiet" busy={busy} onClick={leave}>
            Cancel
          </Button>
        </div>
      </div>
    );
  }
  return (
    <div className="flex flex-col gap-3">
      {i.detail ? (
        <details open={saysLess(i.title)}>
          <summary className="reach cursor-pointer rounded font-mono text-xs leading-5 wrap-anywhere text-text-muted marker:text-text-muted hover:text-text-primary">
            <span data-detail>
              <LongText text={tameCode(i.detail)} />
            </span>
          </summary>
          <div className="mt-2">
            <Fields fields={fieldsOf(i.input)} />
          </div>
        </details>
      ) : (
        <Fields fields={fieldsOf(i.input)} />
      )}
      {way === "deny" ? (
        <Denial label={labelOf(i, "deny")} busy={busy} onEscape={escape} onCancel={leave} onDeny={(why) => onAnswer({ choice: "deny", ...(why && { text: why }) })} />
      ) : (
        <div ref={back} className="flex flex-wrap gap-2">
          {choices.map((c) => (
            <Button
              key={c}
              kind={c === "allow" ? "accent" : "quiet"}
              busy={busy}
              onClick={() => (c === "deny" && i.kind !== "credential" ? setWay("deny") : onAnswer({ choice: c }))}
            >
              {labelOf(i, c)}
              {c === "deny" && i.kind !== "credential" && "…"}
            </Button>
          ))}
          {editable && (
            <Button kind="quiet" busy={busy} onClick={() => setWay("edit")}>
              Edit input…
            </Button>
          )}
        </div>
      )}
      {effectsOf(i).length > 0 && way === "" && (
        <dl className="grid gap-x-4 gap-y-1 text-xs leading-5 sm:grid-cols-[auto_minmax(0,1fr)]">
          {effectsOf(i).map(({ label, effect }) => (
            <div key={label} className="contents">
              <dt className="font-medium max-sm:mt-1">{label}</dt>
              <dd className="text-text-muted">{effect}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

function Editor({ text, problem, busy, onChange }: { text: string; problem: string; busy: boolean; onChange(text: string): void }) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  useEffect(() => {
    if (problem !== "") area.current?.focus();
  }, [problem]);
  return (
    <div className="flex flex-col gap-1.5">
      <label htmlFor={id} className="text-xs font-medium text-text-muted">
        Input of the call, as JSON
      </label>
      <textarea
        ref={area}
        id={id}
        value={text}
        readOnly={busy}
        spellCheck={false}
        rows={Math.min(16, Math.max(4, text.split("\n").length))}
        aria-invalid={problem !== ""}
        aria-describedby={problem === "" ? undefined : `${id}-problem`}
        onChange={(e) => onChange(e.currentTarget.value)}
        className={`w-full resize-y rounded-lg border bg-bg px-3.5 py-2.5 font-mono text-[13px] leading-5 ${problem === "" ? "border-border" : "border-danger/60"}`}
      />
      {problem !== "" && (
        <p id={`${id}-problem`} role="alert" className="wrap-anywhere text-danger">
          {problem}
        </p>
      )}
    </div>
  );
}

interface DenialProps {
  label: string;
  busy: boolean;
  onEscape(e: KeyboardEvent): void;
  onCancel(): void;
  onDeny(why: string): void;
}

function Denial({ label, busy, onEscape, onCancel, onDeny }: DenialProps) {
  const [why, setWhy] = useState("");
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      className="flex flex-col gap-2.5"
      onKeyDown={onEscape}
      onSubmit={(e) => {
        e.preventDefault();
        if (!busy) onDeny(why.trim());
      }}
    >
      <label htmlFor={id} className="text-xs font-medium text-text-muted">
        Why not, or what to do instead (optional; the agent reads it)
      </label>
      <textarea
        ref={field}
        id={id}
        rows={2}
        value={why}
        maxLength={limits.answer}
        onChange={(e) => setWhy(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing) {
            e.preventDefault();
            if (!busy) onDeny(why.trim());
          }
        }}
        className="w-full resize-y rounded-lg border border-border bg-bg px-3.5 py-2"
      />
      <div className="flex flex-wrap gap-2">
        <Button type="submit" kind="danger" busy={busy}>
          {label}
        </Button>
        <Button kind="quiet" busy={busy} onClick={onCancel}>
          Cancel
        </Button>
      </div>
    </form>
  );
}
