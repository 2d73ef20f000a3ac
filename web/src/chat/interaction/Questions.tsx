import { useId, useState } from "react";

import { limits, type Answer, type Interaction, type Question } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { answersOf, choicesOf, labelOf, nothingPicked, pick, pickOther, type Picked } from "./logic.ts";

/** One or more questions with options; each may also be answered in free text. */
export function Questions({ interaction: i, busy, onAnswer }: { interaction: Interaction; busy: boolean; onAnswer(answer: Answer): void }) {
  const [picked, setPicked] = useState<Record<string, Picked>>({});
  const questions = i.questions ?? [];
  const answers = answersOf(questions, picked);
  const others = choicesOf(i).filter((c) => c !== "answered");
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        if (answers && !busy) onAnswer({ choice: "answered", answers });
      }}
    >
      {questions.map((q) => (
        <Choice
          key={q.question}
          question={q}
          alone={questions.length === 1 && q.question === i.title}
          picked={picked[q.question] ?? nothingPicked}
          onPick={(p) => setPicked({ ...picked, [q.question]: p })}
        />
      ))}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" kind="accent" busy={busy} disabled={!answers}>
          {labelOf(i, "answered")}
        </Button>
        {others.map((c) => (
          <Button key={c} kind="quiet" busy={busy} onClick={() => onAnswer({ choice: c })}>
            {labelOf(i, c)}
          </Button>
        ))}
      </div>
    </form>
  );
}

interface ChoiceProps {
  question: Question;
  /** The card's title already shows the question. */
  alone: boolean;
  picked: Picked;
  onPick(p: Picked): void;
}

function Choice({ question: q, alone, picked, onPick }: ChoiceProps) {
  const name = useId();
  const type = q.multi_select ? "checkbox" : "radio";
  const free = (q.options ?? []).length === 0;
  const option = "flex cursor-pointer items-start gap-3 rounded-lg border border-border px-3 py-2 [@media(pointer:coarse)]:py-2.5 hover:bg-hover has-checked:border-accent/60 has-checked:bg-hover";
  return (
    <fieldset className="flex min-w-0 flex-col gap-1.5">
      <legend className={alone ? "sr-only" : "mb-1.5"}>
        {q.header && !q.question.startsWith(q.header) && <span className="mr-2 rounded-md bg-bubble px-1.5 py-0.5 text-xs text-text-muted">{q.header}</span>}
        <span className="font-medium">{q.question}</span>
      </legend>
      {q.multi_select && <p className="text-xs text-text-muted">Choose one or more.</p>}
      {(q.options ?? []).map((o) => (
        <label key={o.label} className={option}>
          <input
            type={type}
            name={name}
            className="mt-1 accent-accent"
            checked={picked.labels.includes(o.label)}
            onChange={(e) => onPick(pick(q, picked, o.label, e.currentTarget.checked))}
          />
          <span className="min-w-0">
            <span className="block wrap-anywhere">{o.label}</span>
            {o.description && <span className="block text-[13px] wrap-anywhere text-text-muted">{o.description}</span>}
          </span>
        </label>
      ))}
      <div className={`${option} ${free ? "bg-bg focus-within:border-accent" : ""}`}>
        {!free && (
          <label className="reach flex shrink-0 items-start gap-3">
            <input type={type} name={name} className="mt-1 accent-accent" checked={picked.other} onChange={(e) => onPick(pickOther(q, picked, e.currentTarget.checked))} />
            Other
          </label>
        )}
        <textarea
          aria-label={`Your own words for: ${q.question}`}
          {...(!free && { placeholder: "in your own words" })}
          rows={1}
          value={picked.text}
          maxLength={limits.answer}
          onFocus={() => !picked.other && onPick(pickOther(q, picked, true))}
          onChange={(e) => onPick({ ...pickOther(q, picked, true), text: e.currentTarget.value })}
          onKeyDown={(e) => {
            // As in the message field: Enter sends, Shift+Enter starts a new line.
            if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
            e.preventDefault();
            e.currentTarget.form?.requestSubmit();
          }}
          className={`field-sizing-content max-h-40 [@media(pointer:coarse)]:-my-3 [@media(pointer:coarse)]:border-b-0 [@media(pointer:coarse)]:py-3 min-w-0 flex-1 resize-none bg-transparent outline-none placeholder:text-text-muted ${free ? "" : "border-b border-border focus:border-accent"}`}
        />
      </div>
    </fieldset>
  );
}
