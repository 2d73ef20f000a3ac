import { useEffect, useId, useMemo, useState } from "react";
import { useStore } from "zustand";

import type { ProposalFinding } from "../api/lakes.ts";
import { useFiles, useFilesState } from "../files/use-files.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { readPatches } from "../ui/diff/diff.ts";
import DiffView from "../ui/diff/DiffView.tsx";
import { Alert, Check, Close } from "../ui/icons.tsx";
import { Markdown } from "../ui/markdown.tsx";
import { oneLine } from "../ui/tame.ts";
import { ago, count, sentence } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import { onVisibility } from "../ui/visibility.ts";
import type { Lake } from "./lake.ts";
import { appliable, byKind } from "./proposals.ts";

/** A proposal with more findings shows their changes on request. */
const manyFindings = 30;

/** What an agent found in the lake, with the change that would mend it, and a person's decision about each. */
export default function ProposalDialog({ lake, onClose, onOpen }: { lake: Lake; onClose(): void; onOpen(path: string): void }) {
  const files = useFiles();
  const readOnly = useFilesState((s) => s.space?.read_only === true);
  const { list, next, id, proposal: p, chosen, busy, error, said } = useStore(lake.proposals.store);
  const [leaving, setLeaving] = useState(false);
  const now = useNow(60_000);
  const findings = p?.findings ?? [];
  const open = findings.filter((f) => f.status === "open");
  const can = open.filter(appliable);
  useEffect(() => onVisibility(() => undefined, () => void lake.proposals.reread()), [lake]);

  const decide = (what: "apply" | "reject", ids: readonly string[]) =>
    void lake.proposals.decide(what, ids).then((paths) => {
      if (paths.length === 0) return;
      files.touched(paths);
      void lake.refresh();
    });
  const title = p ? oneLine(p.title, 160) : "Proposal";
  return (
    <Dialog wide bare title={title} onClose={onClose}>
      <div className="flex h-[calc(100dvh-2rem)] flex-col">
        <header className="flex shrink-0 flex-wrap items-center gap-2 border-b border-border py-1.5 pr-2 pl-4">
          <h2 className="min-w-0 flex-1 text-sm leading-5 font-semibold max-sm:basis-[calc(100%-4rem)]">
            <bdi className="block truncate">{title}</bdi>
            {p && (
              <span className="block truncate text-xs font-normal text-text-muted">
                Found by an agent <time dateTime={p.at} title={new Date(p.at).toLocaleString()}>{ago(p.at, now)}</time>
                {p.by && ` for ${oneLine(p.by, 60)}`}
              </span>
            )}
          </h2>
          {/* On a phone they have a line of their own. */}
          {list.length > 1 && (
            <select aria-label="Proposal" value={id} disabled={busy} onChange={(e) => void lake.proposals.open(e.currentTarget.value)} className="h-8 max-w-[40%] min-w-0 rounded-lg max-sm:order-2 max-sm:max-w-none max-sm:flex-1 max-sm:basis-40 border border-border bg-bg px-1.5 text-xs [@media(pointer:coarse)]:h-11">
              {list.map((x) => (
                <option key={x.id} value={x.id}>
                  {`${new Date(x.at).toLocaleDateString()}: ${oneLine(x.title, 80)}${(x.counts["open"] ?? 0) > 0 ? ` (${count(x.counts["open"] ?? 0)} open)` : ""}`}
                </option>
              ))}
            </select>
          )}
          {next !== "" && (
            <Button kind="quiet" className="max-sm:order-2" onClick={() => void lake.proposals.older()}>
              Show older
            </Button>
          )}
          <IconButton label="Close" onClick={onClose}>
            <Close />
          </IconButton>
        </header>
        {!p ? (
          error ? (
            <div role="alert" className="m-auto max-w-80 p-6 text-center text-sm">
              <p>{sentence(error.message)}</p>
              <p className="mb-3 text-text-muted">{sentence(error.hint)}</p>
              <Button onClick={() => void lake.proposals.reread()}>Try again</Button>
            </div>
          ) : (
            <p role="status" className="m-auto text-sm text-text-muted">
              Reading the proposal…
            </p>
          )
        ) : (
          <>
            <div role="region" aria-label="Findings" tabIndex={0} className="relative min-h-0 flex-1 overflow-y-auto px-4 py-3 text-sm -outline-offset-2">
              {p.report !== "" && (
                <details className="mb-4">
                  <summary className="reach cursor-pointer text-text-muted hover:text-text-primary">The agent's report</summary>
                  <div className="mt-2 rounded-lg border border-border bg-surface px-4 py-2 wrap-anywhere">
                    <Markdown text={p.report} />
                  </div>
                </details>
              )}
              {findings.length === 0 && <p className="text-text-muted">It has no findings.</p>}
              {byKind(findings).map((k) => (
                <section key={k.kind} aria-label={k.name} className="mb-5">
                  <h3 className="mb-1.5 text-xs font-semibold tracking-wide text-text-muted uppercase">
                    {oneLine(k.name, 60)} <span className="font-normal">{count(k.findings.length)}</span>
                  </h3>
                  <ul className="flex flex-col gap-3">
                    {k.findings.map((f) => (
                      <Finding
                        key={f.id}
                        finding={f}
                        folded={findings.length > manyFindings}
                        chosen={chosen.has(f.id)}
                        busy={busy}
                        readOnly={readOnly}
                        onChoose={(yes) => lake.proposals.choose(f.id, yes)}
                        onDecide={(what) => decide(what, [f.id])}
                        onOpen={onOpen}
                        onWhole={() => void lake.proposals.whole(f.id)}
                      />
                    ))}
                  </ul>
                </section>
              ))}
            </div>
            <footer className="flex shrink-0 flex-wrap items-center gap-2 border-t border-border px-4 py-2 text-sm">
              <div className="min-w-0 flex-1 basis-60 text-xs leading-5 wrap-anywhere">
                {error && (
                  <p role="alert" className="text-danger">
                    {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
                  </p>
                )}
                <p role="status" className={said === "" ? "text-text-muted" : ""}>
                  {busy ? "One moment…" : said !== "" ? said : readOnly ? "You may read this lake, but not change it." : open.length === 0 ? "Everything is decided." : `${count(open.length)} of ${count(findings.length)} open. Nothing is changed before you apply it.`}
                </p>
              </div>
              {!readOnly && open.length > 0 && (
                <>
                  <Button kind="quiet" busy={busy} onClick={() => setLeaving(true)}>
                    {open.length === findings.length ? "Leave all" : "Leave the rest"}
                  </Button>
                  {can.length > 0 && (
                    <Button kind="accent" busy={busy} onClick={() => decide("apply", chosen.size > 0 ? can.filter((f) => chosen.has(f.id)).map((f) => f.id) : can.map((f) => f.id))}>
                      {chosen.size > 0 ? `Apply the chosen ${count(chosen.size)}` : `Apply all ${count(can.length)}`}
                    </Button>
                  )}
                </>
              )}
            </footer>
          </>
        )}
      </div>
      {leaving && (
        <Confirm title={open.length === 1 ? "Leave it as it is?" : `Leave all ${count(open.length)} as they are?`} action="Leave" onConfirm={() => decide("reject", open.map((f) => f.id))} onClose={() => setLeaving(false)}>
          They are not proposed again while their pages stay as they are. What is applied stays applied.
        </Confirm>
      )}
    </Dialog>
  );
}

interface FindingProps {
  finding: ProposalFinding;
  folded: boolean;
  chosen: boolean;
  busy: boolean;
  readOnly: boolean;
  onChoose(yes: boolean): void;
  onDecide(what: "apply" | "reject"): void;
  onOpen(path: string): void;
  onWhole(): void;
}

function Finding({ finding: f, folded, chosen, busy, readOnly, onChoose, onDecide, onOpen, onWhole }: FindingProps) {
  const name = useId();
  const patches = useMemo(() => (f.diff ? readPatches(f.diff) : []), [f.diff]);
  const decides = f.status === "open" && !readOnly;
  const low = "h-8! [@media(pointer:coarse)]:h-11!";
  return (
    <li aria-labelledby={name} data-finding={f.status} className="rounded-xl border border-border bg-surface">
      <div className="flex flex-wrap items-start gap-x-3 gap-y-2 px-3.5 py-2.5">
        {decides && appliable(f) && (
          <label className="reach mt-0.5 flex shrink-0 items-center">
            <input type="checkbox" className="size-4 accent-accent" checked={chosen} disabled={busy} onChange={(e) => onChoose(e.currentTarget.checked)} aria-label={`Choose ${oneLine(f.path, 160)}: ${oneLine(f.why, 120)}`} />
          </label>
        )}
        <div className="min-w-0 flex-1 basis-52 leading-5 wrap-anywhere">
          <p id={name} className="font-medium">
            <Page path={f.path} onOpen={onOpen} />
            {(f.line ?? 0) > 1 && <span className="font-normal text-text-muted"> line {count(f.line ?? 0)}</span>}
          </p>
          <p>{sentence(oneLine(f.why, 600))}</p>
          {f.says && f.other_says && f.other && (
            <dl className="mt-1 grid gap-1 text-text-muted">
              <div>
                <dt className="sr-only">It says</dt>
                <dd>“{oneLine(f.says, 400)}”</dd>
              </div>
              <div>
                <dt className="inline">
                  <Page path={f.other} onOpen={onOpen} /> says{" "}
                </dt>
                <dd className="inline">“{oneLine(f.other_says, 400)}”</dd>
              </div>
            </dl>
          )}
          <p className="text-text-muted">{f.mends ? `The change ${oneLine(f.mends, 400)}.` : "It has no change: somebody has to decide what is right."}</p>
          <Became finding={f} />
        </div>
        {decides && (
          <div className="flex gap-2">
            <Button kind="quiet" className={low} busy={busy} aria-describedby={name} onClick={() => onDecide("reject")}>
              Leave
            </Button>
            {appliable(f) && (
              <Button kind="accent" className={low} busy={busy} aria-describedby={name} onClick={() => onDecide("apply")}>
                Apply
              </Button>
            )}
          </div>
        )}
      </div>
      {f.diff && (
        <details open={f.status === "open" && !folded} className="border-t border-border">
          <summary className="reach cursor-pointer px-3.5 py-1.5 text-xs text-text-muted hover:text-text-primary">{patches && patches.length > 1 ? `Its change of ${count(patches.length)} files` : "Its change"}</summary>
          {!patches ? (
            <p className="px-3.5 pb-2.5 text-text-muted">The change is too large to be shown here.</p>
          ) : (
            patches.map((x, i) => (
              <div key={i} className="overflow-hidden border-t border-border bg-bg last:rounded-b-xl">
                {(patches.length > 1 || x.path !== f.path || x.what !== "changed") && (
                  <p className="bg-surface px-3.5 py-1 text-xs wrap-anywhere text-text-muted">
                    <bdi>{oneLine(x.path, 200)}</bdi>
                    {x.what === "removed" ? " is deleted" : x.what === "added" ? " is new" : ""}
                  </p>
                )}
                {x.diff ? <DiffView diff={x.diff} name={oneLine(x.path, 120)} /> : <p className="px-3.5 py-2.5 text-text-muted">No line of it differs.</p>}
              </div>
            ))
          )}
          {f.diff_cut && (
            <div className="flex flex-wrap items-center gap-2 border-t border-border px-3.5 py-2">
              <p className="min-w-0 flex-1 basis-40 text-text-muted">This is only the beginning of the change.{f.status === "open" ? " It can be applied once all of it is shown." : ""}</p>
              <Button kind="quiet" className={low} busy={busy} aria-describedby={name} onClick={onWhole}>
                Show all of it
              </Button>
            </div>
          )}
        </details>
      )}
    </li>
  );
}

function Page({ path, onOpen }: { path: string; onOpen(path: string): void }) {
  return (
    <button type="button" onClick={() => onOpen(path)} className="text-left underline-offset-2 hover:underline">
      <bdi>{oneLine(path, 200)}</bdi>
    </button>
  );
}

/** What became of a finding that is not open any more. */
function Became({ finding: f }: { finding: ProposalFinding }) {
  if (f.status === "open") return null;
  const Icon = f.status === "applied" ? Check : f.status === "stale" ? Alert : Close;
  return (
    <p className={`mt-1 flex items-start gap-1.5 ${f.status === "applied" ? "" : "text-text-muted"}`}>
      <span className="mt-0.5 shrink-0">
        <Icon size={14} />
      </span>
      <span>
        {f.status === "applied"
          ? `Applied${f.commit ? `, as commit ${oneLine(f.commit, 64).slice(0, 10)}` : ""}.`
          : f.status === "rejected"
            ? `Left as it is${f.by ? ` by ${oneLine(f.by, 60)}` : ""}.`
            : `It cannot be applied any more: ${f.reason ? oneLine(f.reason, 300) : "its page was changed since"}.`}
      </span>
    </p>
  );
}
