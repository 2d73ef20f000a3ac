import { useEffect, useId, useState } from "react";

import { toApiError, type Approval } from "../../api/client.ts";
import { useActions } from "../use-chat.ts";
import { Button } from "../../ui/button.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Alert, Check, Close, Hand } from "../../ui/icons.tsx";
import { oneLine, tameCode } from "../../ui/tame.ts";
import { ago, sentence } from "../../ui/text.ts";
import { useNow } from "../../ui/use-now.ts";
import { decisionsOf, kindOf, meaningOf, stateOf, whereOf, wordsOf } from "./approvals.ts";

interface Props {
  list: readonly Approval[];
  onRead(): Promise<void>;
  onClose(): void;
}

/** The programs and services that files of the user and the workspace name, in full, and a person's decision about each. */
export default function Approvals({ list, onRead, onClose }: Props) {
  const chat = useActions();
  const [sending, setSending] = useState("");
  const [refused, setRefused] = useState<{ what: string; message: string; hint: string }>();
  useEffect(() => {
    onRead().catch((cause: unknown) => setRefused({ what: "", message: toApiError(cause).message, hint: toApiError(cause).hint }));
  }, [onRead]);

  const decide = async (a: Approval, state: "allowed" | "denied") => {
    setSending(a.digest);
    setRefused(undefined);
    try {
      await chat.decide(a, state);
    } catch (cause) {
      const { message, hint } = toApiError(cause);
      setRefused({ what: `${oneLine(a.name, 80)} was not ${state === "allowed" ? "approved" : "denied"}`, message, hint });
    }
    await onRead().catch(() => undefined); // the old list stays
    setSending("");
  };

  return (
    <Dialog title="What may run" onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm">
        <p className="text-text-muted">
          Files of yours and of the workspace name these programs and services. Each is used only once you have approved it as it is now: when its command line, its
          address or a file that it names changes, it has to be approved again.
        </p>
        {refused && (
          <p role="alert" className="flex gap-2 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            <span className="mt-0.5 text-danger">
              <Alert size={14} />
            </span>
            <span className="min-w-0 wrap-anywhere">
              {refused.what && `${refused.what}. `}
              {sentence(refused.message)} <span className="text-text-muted">{sentence(refused.hint)}</span>
            </span>
          </p>
        )}
        {list.length === 0 ? (
          <p>No file of yours or of the workspace names a program or a service.</p>
        ) : (
          <ul className="flex flex-col gap-3">
            {list.map((a) => (
              <Entry key={a.digest} approval={a} busy={sending !== ""} onDecide={(state) => void decide(a, state)} />
            ))}
          </ul>
        )}
      </div>
    </Dialog>
  );
}

function Entry({ approval: a, busy, onDecide }: { approval: Approval; busy: boolean; onDecide(state: "allowed" | "denied"): void }) {
  const title = useId();
  const now = useNow(60_000);
  const Icon = a.problem ? Alert : a.state === "allowed" ? Check : a.state === "open" ? Hand : Close;
  return (
    <li aria-labelledby={title} data-approval={a.state} className="flex flex-col gap-2.5 rounded-xl border border-border bg-surface p-3">
      <div className="flex flex-col gap-0.5">
        <h3 id={title} className="font-semibold wrap-anywhere">
          {kindOf(a)} {oneLine(a.name, 200)}
        </h3>
        <p className="text-xs leading-5 wrap-anywhere text-text-muted">Named in {oneLine(whereOf(a), 300)}</p>
      </div>
      {/* Shown in full, because nobody should approve what they cannot see. The server limits it to 8 KiB. */}
      <p className="text-xs leading-5 text-text-muted">{meaningOf(a)}</p>
      <pre className="rounded-lg border border-border bg-bg px-2.5 py-2 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap">
        {wordsOf(tameCode(a.runs)).map((w, i) => (
          <span key={i} className={w.trim() === "" ? undefined : "inline-block max-w-full"}>{w}</span>
        ))}
      </pre>
      <dl className="flex flex-col gap-1 text-xs leading-5">
        {(a.files?.length ?? 0) > 0 && (
          <div className="wrap-anywhere">
            <dt className="inline text-text-muted">With, as they are now: </dt>
            <dd className="inline font-mono">{a.files?.map((f) => tameCode(f)).join(", ")}</dd>
          </div>
        )}
        <div className="break-all">
          <dt className="inline text-text-muted">Digest: </dt>
          <dd className="inline font-mono">{a.digest}</dd>
        </div>
      </dl>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <p className={`flex min-w-0 flex-1 basis-48 items-center gap-2 ${a.state === "open" || a.problem ? "text-link" : "text-text-muted"}`}>
          <span className="shrink-0">
            <Icon size={16} />
          </span>
          <span className="wrap-anywhere">
            {stateOf(a)}
            {a.by && ` · ${oneLine(a.by, 80)}`}
            {a.at && ` · ${ago(a.at, now)}`}
            {a.problem && `: ${sentence(a.problem)}`}
          </span>
        </p>
        <div className="flex gap-2">
          {decisionsOf(a).map((state) => (
            <Button key={state} kind={state === "allowed" ? "accent" : "quiet"} busy={busy} aria-describedby={title} onClick={() => onDecide(state)}>
              {state === "allowed" ? "Approve" : "Deny"}
            </Button>
          ))}
        </div>
      </div>
    </li>
  );
}
