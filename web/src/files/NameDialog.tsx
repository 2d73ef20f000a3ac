import { useId, useRef, useState } from "react";

import { toApiError } from "../api/client.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { sentence } from "../ui/text.ts";

interface Props {
  title: string;
  label: string;
  action: string;
  value: string;
  onClose(): void;
  /** Throws an ApiError. */
  onDone(path: string): Promise<void>;
}

/** Asks for the path of a file. */
export function NameDialog({ title, label, action, value, onClose, onDone }: Props) {
  const [path, setPath] = useState(value);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  const submit = async () => {
    const to = path.trim().replace(/^\/+/, "");
    if (to === "" || to === value || busy) return;
    setBusy(true);
    try {
      await onDone(to);
      onClose();
    } catch (cause) {
      const e = toApiError(cause);
      setProblem(`${sentence(e.message)} ${sentence(e.hint)}`.trim());
      setBusy(false);
      field.current?.focus();
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="flex flex-col gap-3"
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <label htmlFor={id} className="text-sm text-text-muted">
          {label}
        </label>
        <input
          ref={field}
          id={id}
          autoFocus
          value={path}
          maxLength={1024}
          spellCheck={false}
          aria-invalid={problem !== ""}
          aria-describedby={problem === "" ? undefined : `${id}-problem`}
          onChange={(e) => (setPath(e.currentTarget.value), setProblem(""))}
          className="h-10 w-full rounded-lg border border-border bg-surface px-3 font-mono text-sm [@media(pointer:coarse)]:h-11"
        />
        {problem !== "" && (
          <p id={`${id}-problem`} role="alert" className="text-sm wrap-anywhere text-danger">
            {problem}
          </p>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="accent" type="submit" busy={busy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
