import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";

import { IconButton } from "../ui/button.tsx";
import { Chevron, File, Folder, NewFile, Retry } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { count } from "../ui/text.ts";
import { draftKey, isChanged } from "./files.ts";
import { NameDialog } from "./NameDialog.tsx";
import { matching, rowsOf, stepOf, typedTo, type Entry, type Row } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

/** Files that a search lists. */
const mostFound = 60;

/** How long letters that are typed count as one word, in ms. */
const pause = 700;

/** The files of the workspace: a tree to walk through with the keys, and a field to find one by its name. */
export default function FileTree({ onChosen }: { onChosen(): void }) {
  const files = useFiles();
  const [query, setQuery] = useState("");
  const [making, setMaking] = useState(false);
  const names = useFilesState((s) => s.names);
  const readOnly = useFilesState((s) => s.space?.read_only ?? false);
  const found = useMemo(() => matching(query, names?.all ?? [], mostFound), [query, names]);
  const open = (path: string) => {
    void files.show(path);
    onChosen();
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="flex items-center gap-1 p-3 pr-2">
        <input
          type="search"
          aria-label="Find a file by its name"
          placeholder="Find a file"
          value={query}
          onFocus={() => void files.name()}
          onChange={(e) => setQuery(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && found[0] !== undefined) open(found[0]);
            if (e.key === "Escape" && query !== "") {
              e.preventDefault();
              setQuery("");
            }
          }}
          className="h-9 min-w-0 flex-1 rounded-lg border border-border bg-bg px-2.5 text-sm [@media(pointer:coarse)]:h-11"
        />
        {!readOnly && (
          <IconButton label="New file" onClick={() => setMaking(true)}>
            <NewFile size={16} />
          </IconButton>
        )}
        <IconButton label="Read the files again" onClick={() => files.refresh()}>
          <Retry size={16} />
        </IconButton>
      </div>
      {query.trim() !== "" ? <Results found={found} reading={names === undefined} complete={names?.complete ?? true} onOpen={open} /> : <Tree onOpen={open} />}
      {making && (
        <NameDialog
          title="New file"
          label="Its path, such as notes/today.md"
          action="Create"
          value=""
          onClose={() => setMaking(false)}
          onDone={async (path) => {
            await files.show(/\.[^./]+$/.test(path) ? path : `${path}.md`);
            files.edit();
            onChosen();
          }}
        />
      )}
    </div>
  );
}

function Results({ found, reading, complete, onOpen }: { found: readonly string[]; reading: boolean; complete: boolean; onOpen(path: string): void }) {
  return (
    <>
      <p role="status" className="px-4 pb-1 text-xs text-text-muted">
        {reading ? "Reading the names…" : found.length === 0 ? "No file has such a name." : `${count(found.length)}${found.length === mostFound ? " or more" : ""} ${found.length === 1 ? "file" : "files"}${complete ? "" : "; the workspace has more files than are searched"}`}
      </p>
      <ul className="min-h-0 flex-1 overflow-y-auto pb-3">
        {found.map((path) => {
          const at = path.lastIndexOf("/");
          return (
            <li key={path}>
              <button type="button" onClick={() => onOpen(path)} className="block w-full px-4 py-1.5 text-left -outline-offset-2 hover:bg-hover [@media(pointer:coarse)]:min-h-11">
                <bdi className="block truncate text-sm">{oneLine(path.slice(at + 1), 120)}</bdi>
                {at > 0 && <bdi className="block truncate text-xs text-text-muted">{oneLine(path.slice(0, at), 120)}</bdi>}
              </button>
            </li>
          );
        })}
      </ul>
    </>
  );
}

function Tree({ onOpen }: { onOpen(path: string): void }) {
  const files = useFiles();
  const folders = useFilesState((s) => s.folders);
  const opened = useFilesState((s) => s.open);
  const space = useFilesState((s) => s.space);
  const drafts = useFilesState((s) => s.drafts);
  const current = useFilesState((s) => s.doc?.path);
  const wanted = useFilesState((s) => s.at);
  const rows = useMemo(() => rowsOf(folders, opened), [folders, opened]);
  const entries = rows.filter((r): r is Entry => r.kind === "entry");
  const at = entries.some((r) => r.path === wanted) ? wanted : (entries[0]?.path ?? "");
  const box = useRef<HTMLUListElement>(null);
  const typed = useRef({ text: "", at: 0 });

  // The row of the open file is in view, also when a link has opened it.
  useEffect(() => {
    if (current !== undefined) files.reveal(current);
  }, [files, current]);
  useEffect(() => {
    box.current?.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  }, [current, rows.length]);

  const focus = (path: string) => {
    files.point(path);
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-path="${CSS.escape(path)}"]`)?.focus());
  };
  const act = (r: Entry) => {
    files.point(r.path);
    if (r.folder) (r.open ? files.collapse : files.expand).call(files, r.path);
    else onOpen(r.path);
  };
  const key = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const here = entries.find((r) => r.path === at);
    if ((e.key === "Enter" || e.key === " ") && here) {
      e.preventDefault();
      act(here);
      return;
    }
    const step = stepOf(e.key, rows, at);
    if (step) {
      e.preventDefault();
      if (step.open !== undefined) files.expand(step.open);
      if (step.close !== undefined) files.collapse(step.close);
      if (step.focus !== undefined) focus(step.focus);
      return;
    }
    if (e.key.length !== 1) return;
    const now = Date.now();
    typed.current = { text: now - typed.current.at < pause ? typed.current.text + e.key : e.key, at: now };
    const to = typedTo(typed.current.text, rows, at);
    e.preventDefault();
    e.stopPropagation(); // "/" is a letter here
    if (to !== undefined) focus(to);
  };
  return (
    <ul ref={box} role="tree" aria-label={`Files of ${space ? space.name : "the workspace"}`} onKeyDown={key} className="min-h-0 flex-1 overflow-x-hidden overflow-y-auto pb-4 text-sm">
      {rows.map((r) =>
        r.kind === "note" ? (
          <Note key={`${r.path} ${r.note}`} row={r} onMore={() => files.further(r.path)} />
        ) : (
          <TreeRow key={r.path} row={r} focusable={r.path === at} current={r.path === current} unsaved={isUnsaved(space && drafts.get(draftKey(space, r.path)))} onFocus={() => files.point(r.path)} onAct={() => act(r)} />
        ),
      )}
    </ul>
  );
}

const isUnsaved = (d: Parameters<typeof isChanged>[0] | undefined): boolean => d !== undefined && isChanged(d);

const indent = (depth: number) => ({ paddingLeft: `${0.75 + depth * 0.875}rem` });

function TreeRow({ row: r, focusable, current, unsaved, onFocus, onAct }: { row: Entry; focusable: boolean; current: boolean; unsaved: boolean; onFocus(): void; onAct(): void }) {
  const still = r.entry.kind === "link" || r.entry.kind === "other";
  return (
    <li
      role="treeitem"
      data-path={r.path}
      aria-level={r.depth + 1}
      aria-setsize={r.size}
      aria-posinset={r.position}
      aria-selected={current}
      {...(r.folder && { "aria-expanded": r.open })}
      {...(current && { "aria-current": "true" as const })}
      tabIndex={focusable ? 0 : -1}
      title={r.path}
      onFocus={onFocus}
      onClick={onAct}
      style={indent(r.depth)}
      className={`flex h-8 cursor-pointer items-center gap-1.5 border-l-2 pr-3 -outline-offset-2 [@media(pointer:coarse)]:h-11 ${current ? "border-accent bg-hover" : "border-transparent hover:bg-hover"} ${r.entry.ignored || still ? "text-text-muted" : ""}`}
    >
      <span className={`text-text-muted transition-transform ${r.open ? "rotate-90" : ""} ${r.folder ? "" : "invisible"}`}>
        <Chevron size={12} />
      </span>
      <span className="text-text-muted">{r.folder ? <Folder size={15} /> : <File size={15} />}</span>
      <bdi className="min-w-0 truncate">{oneLine(r.name, 160)}</bdi>
      {unsaved && <span className="ml-auto size-1.5 shrink-0 rounded-full bg-accent" aria-hidden="true" />}
      {unsaved && <span className="sr-only">, not saved</span>}
    </li>
  );
}

function Note({ row: r, onMore }: { row: Extract<Row, { kind: "note" }>; onMore(): void }) {
  return (
    <li role="none" style={indent(r.depth)} className="py-1 pr-3 text-xs leading-5 text-text-muted">
      <span className="block pl-4.5">
        {r.note === "reading" && "Reading…"}
        {r.note === "empty" && (r.path === "" ? "There are no files yet." : "Empty.")}
        {r.note === "failed" && `It cannot be read now. ${r.text} `}
        {(r.note === "failed" || r.note === "more") && (
          <button type="button" onClick={onMore} className="reach underline underline-offset-2 hover:text-text-primary">
            {r.note === "more" ? "Show more" : "Try again"}
          </button>
        )}
      </span>
    </li>
  );
}
