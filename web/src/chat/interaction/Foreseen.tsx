import { Suspense, useEffect, useMemo, useState } from "react";

import type { Interaction } from "../../api/types.gen.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { compare, compareParts } from "../../ui/diff/diff.ts";
import DiffView from "../../ui/diff/DiffView.tsx";
import { LongText } from "../../ui/long-text.tsx";
import { oneLine, tame } from "../../ui/tame.ts";
import { count } from "../../ui/text.ts";
import { lazily } from "../../ui/lazily.ts";
import { ChangeBox, Counts } from "../changes/Changed.tsx";
import { useReadFile } from "../changes/read-file.ts";
import type { Planned } from "../turn/tools.ts";
import { comparisonOf, partsOfPost, type Current, type Foreseen as What, type Post } from "./foresee.ts";

// Loaded late: reading front matter takes a parser.
const FrontChange = lazily(() => import("./FrontChange.tsx"));

/** What a call would do, as it will look. */
export default function Foreseen({ what, interaction: i }: { what: What; interaction: Interaction }) {
  return (
    <Boundary fallback={<p className="text-text-muted">This cannot be shown as it will look. Its input is below.</p>}>
      <Suspense fallback={<div className="h-24" />}>{what.kind === "post" ? <AsPost post={what.post} /> : <Change change={what.change} session={i.session} />}</Suspense>
    </Boundary>
  );
}

const nameOf = (who: string): string => who.replace(/(^|[\s._-])(\p{L})/gu, (_all, before: string, letter: string) => (before === "" ? "" : " ") + letter.toUpperCase());

const initials = (name: string): string => name.split(" ").slice(0, 2).map((w) => [...w][0] ?? "").join("");

/** Characters as LinkedIn counts them. */
export const lengthOf = (text: string): number => text.length;

function AsPost({ post: p }: { post: Post }) {
  const parts = useMemo(() => partsOfPost(p), [p]);
  const over = lengthOf(p.text) > p.most;
  const name = oneLine(nameOf(p.who), 80);
  return (
    <figure aria-label={`The ${p.what} as it will look`} data-post={p.what} className="overflow-hidden rounded-lg border border-border bg-bg">
      <div className="flex items-center gap-2.5 px-3.5 pt-3">
        <span aria-hidden="true" className="flex size-10 shrink-0 items-center justify-center rounded-full bg-bubble font-semibold text-text-primary">
          {initials(name) || "?"}
        </span>
        <p className="min-w-0 leading-5">
          <span className="block font-semibold wrap-anywhere">{name || "The person of this conversation"}</span>
          <span className="block text-xs text-text-muted">{p.what === "post" ? "on LinkedIn, for everybody to see" : `a public ${p.what} on LinkedIn`}</span>
        </p>
      </div>
      {p.on !== "" && <p className="px-3.5 pt-2 font-mono text-xs leading-5 wrap-anywhere text-text-muted">{p.what === "reply" ? "in reply to " : "on "}{oneLine(p.on, 400)}</p>}
      <div dir="auto" className="max-h-96 overflow-y-auto px-3.5 py-3 text-sm leading-[1.5] wrap-anywhere whitespace-pre-wrap text-text-primary" tabIndex={0} role="region" aria-label="Its text">
        {parts.map((part, n) => (part.link ? <span key={n} className="font-medium text-link">{tame(part.text)}</span> : <LongText key={n} text={tame(part.text)} />))}
      </div>
      <figcaption className={`border-t border-border px-3.5 py-1.5 text-xs tabular-nums ${over ? "text-danger" : "text-text-muted"}`}>
        {`${count(lengthOf(p.text))} of ${count(p.most)} characters`}
        {over && ". LinkedIn takes no more, so the call will fail."}
      </figcaption>
    </figure>
  );
}

/** The file as it is now, read when the card is shown and whenever it may have changed. */
function useCurrent(session: string, path: string): Current {
  const read = useReadFile();
  const [now, setNow] = useState<Current>(read ? { state: "reading" } : { state: "unknown" });
  useEffect(() => {
    if (!read) return;
    const stop = new AbortController();
    read(session, path, stop.signal).then(
      (got) => stop.signal.aborted || setNow(typeof got === "string" ? { state: got } : { state: "read", text: got.text }),
      () => stop.signal.aborted || setNow({ state: "unknown" }),
    );
    return () => stop.abort();
  }, [read, session, path]);
  return now;
}

function Change({ change: c, session }: { change: Planned; session: string }) {
  const now = useCurrent(session, c.path);
  const shown = useMemo(() => {
    const { before, after, whole, note } = comparisonOf(c, now);
    // Lines before it may come and go in the front matter, so the lines of the text have no numbers then.
    return { diff: (whole && !c.front ? compare : compareParts)(before, after), note };
  }, [c, now]);
  const path = oneLine(c.path, 300);
  const reading = now.state === "reading";
  return (
    <ChangeBox>
      <div className="flex min-h-9 flex-wrap items-center gap-x-2 border-b border-border bg-surface px-3.5 py-1.5">
        <bdi className="min-w-0 font-medium wrap-anywhere">{path}</bdi>
        {!reading && <Counts added={shown.diff.added} removed={shown.diff.removed} />}
      </div>
      {shown.note !== "" && <p className="border-b border-border px-3.5 py-1.5 text-text-muted">{shown.note}</p>}
      {c.front && !reading && now.state !== "none" && (
        <Suspense fallback={<div className="h-12" />}>
          <FrontChange front={c.front} now={now} path={path} />
        </Suspense>
      )}
      {reading ? (
        <div className="h-24" />
      ) : (
        c.after !== undefined && (
          <div className={`max-h-[28rem] overflow-y-auto ${c.front ? "border-t border-border" : ""}`} tabIndex={0} role="region" aria-label={`What changes in ${path}`}>
            <DiffView diff={shown.diff} name={path} />
          </div>
        )
      )}
    </ChangeBox>
  );
}
