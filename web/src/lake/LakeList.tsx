import { Suspense, useEffect, useMemo, useState } from "react";
import { useStore } from "zustand";

import type { EntityHit } from "../api/lakes.ts";
import { useFiles, useFilesState } from "../files/use-files.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Graph, Retry, Spark } from "../ui/icons.tsx";
import { lazily } from "../ui/lazily.ts";
import { oneLine } from "../ui/tame.ts";
import { count, sentence } from "../ui/text.ts";
import { facets, marked, type Choice, type Facet, type Lake } from "./lake.ts";
import { waits } from "./proposals.ts";

const ProposalDialog = lazily(() => import("./ProposalDialog.tsx"));
const GraphDialog = lazily(() => import("./GraphDialog.tsx"));

/** How long after the last letter a search begins, in ms. */
const pause = 250;

/** The entities of a lake: found by their words and by what their front matter says. */
export default function LakeList({ lake, onChosen }: { lake: Lake; onChosen(): void }) {
  const files = useFiles();
  const s = useStore(lake.store);
  const [typed, setTyped] = useState(s.words);
  const [graph, setGraph] = useState(false);
  const current = useFilesState((f) => f.doc?.path);
  const narrowed = s.words !== "" || facets.some((f) => s.filter[f] !== undefined);

  useEffect(() => {
    void lake.refresh();
    void lake.proposals.refresh();
    return () => lake.stop();
  }, [lake]);
  useEffect(() => {
    if (typed.trim() === lake.store.getState().words) return;
    const timer = setTimeout(() => lake.search(typed.trim()), pause);
    return () => clearTimeout(timer);
  }, [lake, typed]);
  // A property of an entity lists all that have it, without the words.
  useEffect(() => lake.store.subscribe((now, before) => now.words === "" && before.words !== "" && setTyped("")), [lake]);

  const open = (path: string) => {
    void files.show(path);
    onChosen();
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex items-center gap-1 p-3 pr-2 pb-2">
        <input
          type="search"
          aria-label="Search the lake"
          placeholder="Search the lake"
          maxLength={300}
          value={typed}
          onChange={(e) => setTyped(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Escape" && typed !== "") {
              e.preventDefault();
              setTyped("");
            }
          }}
          className="h-9 min-w-0 flex-1 rounded-lg border border-border bg-bg px-2.5 text-sm [@media(pointer:coarse)]:h-11"
        />
        <IconButton label="Show the links as a graph" onClick={() => setGraph(true)}>
          <Graph size={16} />
        </IconButton>
        <IconButton label="Read the lake again" onClick={() => (void lake.refresh(), void lake.proposals.refresh())}>
          <Retry size={16} />
        </IconButton>
      </div>
      <Waiting lake={lake} onOpen={open} />
      {s.choices && (
        <div className="grid grid-cols-2 gap-1.5 px-3 pb-2">
          {facets.map((f) => s.choices !== undefined && s.choices[f].length > 1 && <Choose key={f} facet={f} value={s.filter[f] ?? ""} choices={s.choices[f]} onChoose={(v) => lake.only(f, v)} />)}
        </div>
      )}
      <p role="status" className="flex min-h-6 items-center justify-between gap-2 px-4 pb-1 text-xs text-text-muted">
        <span>{said(s.state, s.entities.length, s.next !== "", s.partial, narrowed, s.size)}</span>
        {narrowed && (
          <button type="button" className="reach underline underline-offset-2 hover:text-text-primary" onClick={() => (setTyped(""), lake.all())}>
            Show all
          </button>
        )}
      </p>
      {s.state === "failed" && s.entities.length === 0 ? (
        <div role="alert" className="px-4 text-sm">
          <p>{sentence(s.error?.message)}</p>
          <p className="mb-2 text-text-muted">{sentence(s.error?.hint)}</p>
          <Button onClick={() => void lake.refresh()}>Try again</Button>
        </div>
      ) : (
        <ul aria-label="Entities" className={`min-h-0 flex-1 overflow-y-auto pb-3 ${s.state === "reading" ? "opacity-60" : ""}`}>
          {s.entities.map((e) => (
            <Row key={e.path} entity={e} current={e.path === current} onOpen={() => open(e.path)} />
          ))}
          {s.next !== "" && (
            <li className="p-3">
              {s.state === "failed" && <p role="alert" className="mb-2 text-xs wrap-anywhere">{sentence(s.error?.message)}</p>}
              <Button className="w-full" busy={s.state === "more"} onClick={() => void lake.more()}>
                {s.state === "more" ? "Reading…" : s.state === "failed" ? "Try again" : "Show more"}
              </Button>
            </li>
          )}
        </ul>
      )}
      {graph && (
        <Suspense fallback={null}>
          <GraphDialog lake={lake} onClose={() => setGraph(false)} onOpen={(path) => (setGraph(false), open(path))} />
        </Suspense>
      )}
    </div>
  );
}

/** The proposals for the lake, if there are any. */
function Waiting({ lake, onOpen }: { lake: Lake; onOpen(path: string): void }) {
  const list = useStore(lake.proposals.store, (s) => s.list);
  const further = useStore(lake.proposals.store, (s) => s.next !== "");
  const [open, setOpen] = useState(false);
  const waiting = list.filter(waits);
  const first = waiting[0] ?? list[0];
  return (
    <>
      {first && (
        <button
          type="button"
          aria-haspopup="dialog"
          onClick={() => (void lake.proposals.open(first.id), setOpen(true))}
          className={`mx-3 mb-2 flex min-h-9 items-center gap-2 rounded-lg border px-2.5 py-1.5 text-left text-xs leading-4 [@media(pointer:coarse)]:min-h-11 ${waiting.length > 0 ? "border-accent hover:bg-hover" : "border-border text-text-muted hover:bg-hover"}`}
        >
          <span className="text-link">
            <Spark size={14} />
          </span>
          <span className="min-w-0 flex-1">
            {waiting.length > 0 ? (
              <>
                <span className="block font-medium">{waiting.length === 1 ? "1 proposal waits" : `${count(waiting.length)}${further ? " or more" : ""} proposals wait`}</span>
                <bdi className="block truncate text-text-muted">{oneLine(first.title, 120)}</bdi>
              </>
            ) : (
              `${count(list.length)}${further ? " or more" : ""} earlier ${list.length === 1 ? "proposal" : "proposals"}`
            )}
          </span>
        </button>
      )}
      {open && (
        <Suspense fallback={null}>
          <ProposalDialog lake={lake} onClose={() => setOpen(false)} onOpen={(path) => (setOpen(false), onOpen(path))} />
        </Suspense>
      )}
    </>
  );
}

function said(state: string, n: number, more: boolean, partial: boolean, narrowed: boolean, size: number | undefined): string {
  if (state === "reading" && n === 0) return "Reading…";
  if (state === "failed" && n === 0) return "";
  if (n === 0) return narrowed ? "Nothing has been found." : "There are no entities yet.";
  if (partial) return "None has all words; these have some.";
  if (!narrowed && size !== undefined) return `${count(size)} ${size === 1 ? "entity" : "entities"}`;
  return `${count(n)}${more ? " or more" : ""} found`;
}

const names: Readonly<Record<Facet, string>> = { kind: "Kind", status: "Status", owner: "Owner", tag: "Tag" };

function Choose({ facet, value, choices, onChoose }: { facet: Facet; value: string; choices: readonly Choice[]; onChoose(value: string): void }) {
  return (
    <select
      aria-label={names[facet]}
      value={value}
      onChange={(e) => onChoose(e.currentTarget.value)}
      className={`h-8 min-w-0 rounded-lg border bg-bg px-1.5 text-xs [@media(pointer:coarse)]:h-11 ${value === "" ? "border-border text-text-muted" : "border-accent text-text-primary"}`}
    >
      <option value="">{names[facet]}</option>
      {choices.map((c) => (
        <option key={c.value} value={c.value}>
          {`${oneLine(c.value, 60)} (${count(c.n)})`}
        </option>
      ))}
    </select>
  );
}

/** A part of a snippet, with the spaces that part it from the next. */
const spaced = (text: string): string => `${/^\s/.test(text) ? " " : ""}${oneLine(text, 400)}${/\s$/.test(text) ? " " : ""}`;

function Row({ entity: e, current, onOpen }: { entity: EntityHit; current: boolean; onOpen(): void }) {
  const parts = useMemo(() => marked(e.snippet ?? ""), [e.snippet]);
  const facts = [e.kind, e.status, e.owner].filter((v) => v !== undefined && v !== "");
  return (
    <li>
      <button
        type="button"
        title={e.path}
        {...(current && { "aria-current": "true" as const })}
        onClick={onOpen}
        className={`block w-full border-l-2 px-3.5 py-1.5 text-left -outline-offset-2 [@media(pointer:coarse)]:min-h-11 ${current ? "border-accent bg-hover" : "border-transparent hover:bg-hover"}`}
      >
        <bdi className="block truncate text-sm">{oneLine(e.title || e.path, 160)}</bdi>
        <span className="block truncate text-xs text-text-muted">
          {facts.length > 0 ? facts.map((v, i) => (
            <span key={i}>
              {i > 0 && " · "}
              <bdi>{oneLine(v ?? "", 60)}</bdi>
            </span>
          )) : <bdi>{oneLine(e.path, 120)}</bdi>}
        </span>
        {parts.length > 0 && (
          <span className="mt-0.5 line-clamp-3 text-xs leading-5 text-text-muted">
            {parts.map((p, i) => (p.found ? <b key={i} className="font-semibold text-text-primary">{spaced(p.text)}</b> : <span key={i}>{spaced(p.text)}</span>))}
          </span>
        )}
      </button>
    </li>
  );
}
