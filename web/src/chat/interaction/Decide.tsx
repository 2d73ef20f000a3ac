import { Suspense, useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from "react";

import { limits, type Answer, type Interaction } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { LongText } from "../../ui/long-text.tsx";
import { tameCode } from "../../ui/tame.ts";
import { count, sentence } from "../../ui/text.ts";
import { lazily } from "../../ui/lazily.ts";
import { Fields } from "./Fields.tsx";
import { foreseenIn, type Main } from "./foresee.ts";
import { choicesOf, effectsOf, fieldsOf, labelOf, parseInput, type Sending } from "./logic.ts";

// Loaded late, as what compares texts is.
const Foreseen = lazily(() => import("./Foreseen.tsx"));

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
  const [way, setWay] = useState<"" | "deny" | "edit" | "main">("");
  const choices = choicesOf(i);
  const foreseen = useMemo(() => foreseenIn(i), [i]);
  const [text, setText] = useState(() => JSON.stringify(i.input ?? {}, null, 2));
  const [main, setMain] = useState(foreseen?.main?.text ?? "");
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
  const problemAt = atInput ? `${sentence(atInput.message)} ${sentence(atInput.hint)}`.trim() : "";

  if (way === "main" && foreseen?.main) {
    const { field } = foreseen.main;
    const input = { ...(i.input as object), [field]: main };
    return (
      <div className="flex flex-col gap-3" onKeyDown={escape}>
        <MainEditor main={foreseen.main} text={main} problem={problemAt} busy={busy} onChange={setMain} />
        <div className="flex flex-wrap gap-2">
          <Button kind="accent" busy={busy} onClick={() => onAnswer({ choice: "allow", input })}>
            Allow with this text
          </Button>
          <Button kind="quiet" busy={busy} onClick={leave}>
            Cancel
          </Button>
          <Button kind="quiet" busy={busy} onClick={() => (setText(JSON.stringify(input, null, 2)), setWay("edit"))}>
            Edit all of the input
          </Button>
        </div>
      </div>
    );
  }

  if (way === "edit") {
    const problem = broken || problemAt;
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
      {foreseen ? (
        <>
          <Suspense fallback={<div className="h-24" />}>
            <Foreseen what={foreseen} interaction={i} />
          </Suspense>
          <details>
            <summary className="reach w-fit cursor-pointer rounded text-xs leading-5 text-text-muted marker:text-text-muted hover:text-text-primary">The call as it will be made</summary>
            <div className="mt-2">
              <Fields fields={fieldsOf(i.input)} />
            </div>
          </details>
        </>
      ) : i.detail ? (
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
            <Button kind="quiet" busy={busy} onClick={() => setWay(foreseen?.main ? "main" : "edit")}>
              {foreseen?.main ? "Edit text…" : "Edit input…"}
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

/** The text that a call would write, to be changed before it does. */
function MainEditor({ main, text, problem, busy, onChange }: { main: Main; text: string; problem: string; busy: boolean; onChange(text: string): void }) {
  const id = useId();
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const over = main.most !== undefined && text.length > main.most;
  return (
    <div className="flex flex-col gap-1.5">
      <label htmlFor={id} className="text-xs font-medium text-text-muted">
        {main.label}
      </label>
      <textarea
        ref={area}
        id={id}
        dir="auto"
        value={text}
        readOnly={busy}
        rows={Math.min(16, Math.max(5, text.split("\n").length + 1))}
        aria-invalid={problem !== "" || over}
        aria-describedby={`${id}-said`}
        onChange={(e) => onChange(e.currentTarget.value)}
        className={`w-full resize-y rounded-lg border bg-bg px-3.5 py-2.5 leading-[1.5] ${problem !== "" || over ? "border-danger/60" : "border-border"}`}
      />
      <p id={`${id}-said`} className={`text-xs tabular-nums ${over ? "text-danger" : "text-text-muted"}`}>
        {main.most !== undefined && `${count(text.length)} of ${count(main.most)} characters`}
      </p>
      {problem !== "" && (
        <p role="alert" className="wrap-anywhere text-danger">
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
