import { useId, useState } from "react";

import { limits, type Interaction } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { labelOf } from "./logic.ts";

interface Props {
  interaction: Interaction;
  busy: boolean;
  /** Undefined: nothing is given. */
  onAnswer(credentials: Record<string, string> | undefined): void;
}

/** A field for each credential. What is typed is in no state of the page: it goes from the fields to the server. */
export function Secrets({ interaction: i, busy, onAnswer }: Props) {
  const id = useId();
  const [empty, setEmpty] = useState("");
  const names = i.credentials ?? [];
  return (
    <form
      className="flex flex-col gap-3"
      autoComplete="off"
      onSubmit={(e) => {
        e.preventDefault();
        if (busy) return;
        const form = new FormData(e.currentTarget);
        const given: Record<string, string> = {};
        for (const name of names) {
          const value = String(form.get(name) ?? "").trim();
          if (value === "") {
            setEmpty(name);
            e.currentTarget.querySelector<HTMLInputElement>(`input[name="${name}"]`)?.focus();
            return;
          }
          given[name] = value;
        }
        setEmpty("");
        onAnswer(given);
      }}
    >
      {names.map((name) => (
        <div key={name} className="flex flex-col gap-1.5">
          <label htmlFor={id + name} className="text-xs font-medium text-text-muted">
            {name}
          </label>
          <input
            id={id + name}
            name={name}
            type="password"
            autoComplete="off"
            spellCheck={false}
            maxLength={limits.credential}
            readOnly={busy}
            aria-invalid={empty === name}
            aria-describedby={empty === name ? `${id}-empty` : undefined}
            className={`w-full rounded-lg border bg-bg px-3.5 py-2 font-mono [@media(pointer:coarse)]:h-11 ${empty === name ? "border-danger/60" : "border-border"}`}
          />
        </div>
      ))}
      {empty !== "" && (
        <p id={`${id}-empty`} role="alert" className="text-danger">
          Type {empty}, or deny.
        </p>
      )}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" kind="accent" busy={busy}>
          {labelOf(i, "answered")}
        </Button>
        <Button kind="quiet" busy={busy} onClick={() => onAnswer(undefined)}>
          {labelOf(i, "deny")}
        </Button>
      </div>
    </form>
  );
}
