import { useId, useRef, useState } from "react";

import { limits, type Pin } from "../../api/types.gen.ts";
import { useActions, useChat } from "../use-chat.ts";
import { Button, IconButton } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Plus, Trash } from "../../ui/icons.tsx";
import { sentence } from "../../ui/text.ts";

interface Row extends Pin {
  key: number;
}

/** The pins, which every prompt of the conversation contains. Nothing changes until they are saved. */
export default function PinsEditor({ onClose }: { onClose(): void }) {
  const chat = useActions();
  const hint = chat.words.pin;
  const saved = useChat((s) => s.opened.records.pins);
  const problem = useChat((s) => s.problem);
  const next = useRef(saved.length);
  const [rows, setRows] = useState<Row[]>(() => (saved.length > 0 ? saved.map((p, key) => ({ ...p, key })) : [{ key: next.current++, label: "", text: "" }]));
  const [state, setState] = useState<"" | "saving" | "failed">("");
  const name = useId();
  const change = (key: number, part: Partial<Pin>) => setRows(rows.map((r) => (r.key === key ? { ...r, ...part } : r)));
  const kept = rows.filter((r) => r.text.trim() !== "");

  const save = async () => {
    setState("saving");
    const pins = kept.map((r) => ({ label: r.label.trim() || "note", text: r.text.trim() }));
    if (await chat.setPins(pins)) onClose();
    else setState("failed");
  };

  return (
    <Dialog title="Pins" onClose={onClose}>
      <form
        className="flex flex-col gap-4 text-sm"
        onSubmit={(e) => {
          e.preventDefault();
          void save();
        }}
      >
        <p className="text-text-muted">The agent reads pins with every message of this conversation, however long it gets.</p>
        {rows.length > 0 && (
          <ul className="flex flex-col gap-3">
            {rows.map((r, i) => (
              <li key={r.key} className="flex flex-col gap-1.5 rounded-xl border border-border bg-surface p-3">
                <div className="flex items-center gap-2">
                  <label className="sr-only" htmlFor={`${name}-${r.key}-label`}>
                    Name of pin {i + 1}
                  </label>
                  <input
                    id={`${name}-${r.key}-label`}
                    value={r.label}
                    maxLength={80}
                    placeholder="Name"
                    onChange={(e) => change(r.key, { label: e.currentTarget.value })}
                    className="h-8 min-w-0 flex-1 [@media(pointer:coarse)]:h-11 rounded-lg border border-border bg-bg px-2.5 font-medium"
                  />
                  <IconButton label={`Remove pin ${i + 1}`} onClick={() => setRows(rows.filter((x) => x.key !== r.key))}>
                    <Trash size={16} />
                  </IconButton>
                </div>
                <label className="sr-only" htmlFor={`${name}-${r.key}-text`}>
                  Text of pin {i + 1}
                </label>
                <textarea
                  id={`${name}-${r.key}-text`}
                  value={r.text}
                  rows={2}
                  maxLength={limits.pin / 4 - 80 /* a character has up to four bytes, and the label has 80 */}
                  placeholder={`For example: ${hint}`}
                  onChange={(e) => change(r.key, { text: e.currentTarget.value })}
                  className="w-full resize-y rounded-lg border border-border bg-bg px-2.5 py-1.5"
                />
              </li>
            ))}
          </ul>
        )}
        {state === "failed" && problem && (
          <p role="alert" className="rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            {sentence(problem.message)} <span className="text-text-muted">{sentence(problem.hint)}</span>
          </p>
        )}
        <div className="flex flex-wrap justify-between gap-2">
          <Button disabled={rows.length >= limits.pins} onClick={() => setRows([...rows, { key: next.current++, label: "", text: "" }])}>
            <Plus size={16} />
            Add a pin
          </Button>
          <Button type="submit" kind="accent" disabled={state === "saving"}>
            {state === "saving" ? "Saving…" : "Save"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
