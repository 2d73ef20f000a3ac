import { useState } from "react";

import type { Rule } from "../../api/types.gen.ts";
import { useActions, useChat } from "../use-chat.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { sentence } from "../../ui/text.ts";
import { nameOf } from "./rules.ts";


/** The rules granted in the conversation, and how to revoke them. */
export default function RulesList({ onClose }: { onClose(): void }) {
  const chat = useActions();
  const rules = useChat((s) => s.opened.records.rules);
  // Two calls that asked at the same time may have granted the same rule.
  const unlike = rules.filter((r, i) => rules.findIndex((x) => nameOf(x) === nameOf(r)) === i);
  const problem = useChat((s) => s.problem);
  const [state, setState] = useState<"" | "saving" | "failed">("");

  const revoke = async (gone: Rule) => {
    setState("saving");
    setState((await chat.keepRules(rules.filter((r) => nameOf(r) !== nameOf(gone)))) ? "" : "failed");
  };

  return (
    <Dialog title="Allowed for this conversation" onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm">
        <p className="text-text-muted">
          {rules.length > 0 ? "Calls like these are made without asking. What the app forbids stays forbidden." : "Nothing. You are asked for each call, as the app's settings say."}
        </p>
        {rules.length > 0 && (
          <ul className="flex flex-col gap-2">
            {unlike.map((r) => (
              <li key={nameOf(r)} className="flex flex-wrap items-center justify-between gap-3 rounded-xl border border-border bg-surface p-3">
                <code className="min-w-0 flex-1 basis-60 text-[13px] wrap-anywhere">{nameOf(r)}</code>
                <Button kind="quiet" className="shrink-0" busy={state === "saving"} aria-label={`Ask again for ${nameOf(r)}`} onClick={() => void revoke(r)}>
                  Ask again
                </Button>
              </li>
            ))}
          </ul>
        )}
        {state === "failed" && problem && (
          <p role="alert" className="rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            {sentence(problem.message)} <span className="text-text-muted">{sentence(problem.hint)}</span>
          </p>
        )}
      </div>
    </Dialog>
  );
}
