import { Fragment, useId, useState, type ReactNode } from "react";

import type { RestoredView } from "../api/types.gen.ts";
import { Chevron } from "../ui/icons.tsx";
import { LongText } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { count } from "../ui/text.ts";

/** A line that says what a model knows from before, and can be unfolded. */
function Told({ says, name, children }: { says: string; name: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <div data-told className="my-2 rounded-lg border border-dashed border-border text-sm text-text-muted">
      <button type="button" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)} className="flex min-h-9 w-full items-center gap-2 px-3 py-1.5 text-left hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
        <span className={`transition-transform ${open ? "rotate-90" : ""}`}>
          <Chevron size={14} />
        </span>
        <span className="min-w-0 wrap-anywhere">{says}</span>
      </button>
      <div id={id} hidden={!open}>
        {open && (
          <div role="region" aria-label={name} tabIndex={0} className="max-h-96 overflow-y-auto border-t border-border px-3.5 py-2.5 wrap-anywhere">
            {children}
          </div>
        )}
      </div>
    </div>
  );
}

/** The conversation from elsewhere that a session continues. */
export function Continued({ list }: { list: readonly RestoredView[] }) {
  const n = list.reduce((sum, x) => sum + (x.message ? 1 : 0) + (x.answer ? 1 : 0), 0);
  return (
    <Told says={`This conversation continues an earlier one: ${count(n)} ${n === 1 ? "message" : "messages"}.`} name="The earlier conversation">
      <dl className="flex flex-col gap-2">
        {list.map((x) => (
          <Fragment key={x.seq}>
            {x.message && <Said who="User" text={x.message} />}
            {x.answer && <Said who="Assistant" text={x.answer} />}
          </Fragment>
        ))}
      </dl>
    </Told>
  );
}

function Said({ who, text }: { who: string; text: string }) {
  return (
    <div>
      <dt className="text-xs font-medium">{who}</dt>
      <dd dir="auto" className="whitespace-pre-wrap text-text-primary">
        <LongText text={tame(text)} />
      </dd>
    </div>
  );
}

/** What a runtime was told of the conversation, as it has none of its own any more. */
export function Reminded({ says, told }: { says: string; told: string }) {
  return (
    <Told says={says} name="What it was told">
      <p dir="auto" className="whitespace-pre-wrap text-text-primary">
        <LongText text={tame(told)} />
      </p>
    </Told>
  );
}
