import { Suspense, useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";

import { OpenFileContext } from "../chat/changes/open-file.ts";
import { ReadFileContext, type ReadFile } from "../chat/changes/read-file.ts";
import { Frame } from "../chat/Frame.tsx";
import type { Listed } from "../chat/listed.ts";
import { ListedSidebar } from "../chat/ListedSidebar.tsx";
import { useChat } from "../chat/use-chat.ts";
import { toApiError } from "../api/client.ts";
import { LakeContext } from "../lake/lake-context.ts";
import { Lake } from "../lake/lake.ts";
import { Boundary } from "../ui/boundary.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { DocContext } from "../ui/doc-links.ts";
import { lazily } from "../ui/lazily.ts";
import { useMedia } from "../ui/use-media.ts";
import { onVisibility } from "../ui/visibility.ts";
import { linksOf } from "./doc.tsx";
import type { Files } from "./files.ts";
import { Resizer, useWidth } from "./Resizer.tsx";
import { SpaceMenu } from "./SpaceMenu.tsx";
import { nameOf } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

const FileTree = lazily(() => import("./FileTree.tsx"));
const FilePanel = lazily(() => import("./FilePanel.tsx"));
const LakeList = lazily(() => import("../lake/LakeList.tsx"));

/** From this width on, there is room for a file beside the chat. */
const wide = "(min-width: 1180px)";

/** The page of an app, with the files of its workspace if it has any. */
export function WithFiles({ chat }: { chat: Listed }) {
  const files = useFiles();
  const spaces = useFilesState((s) => s.spaces);
  const space = useFilesState((s) => s.space);
  const doc = useFilesState((s) => s.doc?.path);
  const roomy = useMedia(wide);
  const workspace = useChat((s) => s.opened.records.workspace);
  const [width, setWidth] = useWidth();

  // The folder that is shown is the open session's. New sessions work in the one that is shown.
  useEffect(() => {
    if (workspace !== "") files.choose(workspace);
  }, [files, workspace, spaces]);
  useEffect(() => {
    chat.workspace = space?.name ?? "";
  }, [chat, space]);
  const any = space !== undefined;
  const opens = useMemo(() => (any ? (path: string) => void files.show(path) : undefined), [any, files]);
  const [news, setNews] = useState(0);
  const heard = useCallback(() => setNews((n) => n + 1), []);
  // Another function after each change: what was read before may be old.
  const reads = useMemo(() => (any ? readFor(chat, files) : undefined), [any, chat, files, news]);
  const links = useMemo(() => (any ? linksOf("") : undefined), [any]);
  const [tab, setTab] = useState<Tab>("chats");
  const [wanted, setWanted] = useState(0);
  const lake = useMemo(() => (space?.lake ? new Lake(chat.client, { app: chat.app, name: space.name }) : undefined), [chat, space]);
  useFollowed(chat, files, lake, heard);
  const shown = useMemo(
    () =>
      lake && {
        lake,
        list: () => {
          setTab("lake");
          setWanted((n) => n + 1);
          if (!matchMedia(wide).matches) files.close(); // it covers the list
        },
      },
    [lake, files],
  );
  const panel = (
    <Boundary fallback={<p className="p-4 text-sm text-text-muted">This file cannot be shown.</p>} retry={doc ?? ""}>
      <Suspense fallback={null}>
        <FilePanel onClose={() => files.close()} />
      </Suspense>
    </Boundary>
  );
  return (
    <OpenFileContext value={opens}>
      <ReadFileContext value={reads}>
        <DocContext value={links}>
          <LakeContext value={shown}>
            <Frame wanted={wanted} sidebar={(props) => <Side chat={chat} lake={lake} chosen={tab} setTab={setTab} {...props} />}>
              {doc !== undefined &&
                (roomy ? (
                  <>
                    <Resizer width={width} onWidth={setWidth} />
                    <aside aria-label="File" className="flex shrink-0 flex-col bg-bg" style={{ width: `${width}px`, maxWidth: "calc(100vw - 640px)" }}>
                      {panel}
                    </aside>
                  </>
                ) : (
                  <Dialog side wide bare title={nameOf(doc)} onClose={() => files.close()}>
                    {panel}
                  </Dialog>
                ))}
            </Frame>
          </LakeContext>
        </DocContext>
      </ReadFileContext>
    </OpenFileContext>
  );
}

/** Files that are changed are read again, and nothing that was typed goes with the page. */
function useFollowed(chat: Listed, files: Files, lake: Lake | undefined, heard: () => void): void {
  useEffect(() => {
    const touched = (paths: readonly string[]) => {
      files.touched(paths);
      heard();
    };
    const feed = lake?.follow(touched);
    let [id, seq, live] = ["", 0, false];
    const stop = chat.store.subscribe(({ opened }) => {
      const { records } = opened;
      const follows = opened.id === id && live;
      const since = seq;
      [id, seq, live] = [opened.id, records.seq, opened.phase === "live" || opened.phase === "new"];
      if (!follows || records.seq <= since) return;
      const paths = new Set<string>();
      let ended = false;
      for (const events of records.events.values()) {
        for (let i = events.length - 1; i >= 0 && (events[i]?.seq ?? 0) > since; i--) {
          const e = events[i];
          ended ||= e?.type === "tool.ended";
          if (e?.type === "files.saved") for (const f of e.data?.files ?? []) paths.add(f.path);
        }
      }
      if (ended) feed?.look(); // a call may have changed the lake
      if (paths.size === 0) return;
      touched([...paths]);
      void lake?.reread(); // not every change of a file is committed
    });
    const unseen = onVisibility(
      () => undefined,
      () => {
        files.refresh();
        feed?.look();
        void lake?.reread();
      },
    );
    const leaving = (e: BeforeUnloadEvent) => {
      if (files.unsaved()) e.preventDefault();
    };
    addEventListener("beforeunload", leaving);
    return () => {
      feed?.stop();
      stop();
      unseen();
      removeEventListener("beforeunload", leaving);
    };
  }, [chat, files, lake, heard]);
}

/** Reads files for the cards of the open session. The workspaces of others are not known here. */
function readFor(chat: Listed, files: Files): ReadFile {
  return async (session, path, signal) => {
    const { opened, known } = chat.store.getState();
    const name = opened.records.workspace;
    if (known[opened.id]?.server !== session || name === "") return "unknown";
    try {
      const file = await files.workspaces.read({ app: chat.app, name }, path, undefined, signal);
      return file.text === undefined || file.next_line || file.cut ? "unknown" : { text: file.text };
    } catch (cause) {
      return toApiError(cause).code === "not_found" ? "none" : "unknown";
    }
  };
}

type Tab = "chats" | "files" | "lake";

function Side({ chat, lake, chosen, setTab, ...props }: { chat: Listed; lake: Lake | undefined; chosen: Tab; setTab(tab: Tab): void; onChosen(): void; onClose?: () => void }) {
  const space = useFilesState((s) => s.space);
  const tab = chosen === "lake" && !lake ? "chats" : chosen;
  // Of several persons, each has sessions of its own.
  const only = space?.kind === "granted" ? space.name : undefined;
  const body: ReactNode =
    space && tab !== "chats" ? (
      <div id={`side-${tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`} className="flex min-h-0 flex-1 flex-col">
        <Suspense fallback={null}>{tab === "lake" && lake ? <LakeList lake={lake} onChosen={() => props.onClose?.()} /> : <FileTree onChosen={() => props.onClose?.()} />}</Suspense>
      </div>
    ) : undefined;
  return (
    <ListedSidebar
      chat={chat}
      only={only}
      {...props}
      {...(body !== undefined && { body })}
      top={
        space && (
          <>
            <SpaceMenu chat={chat} onChosen={props.onChosen} />
            <Tabs tabs={lake ? tabs : tabs.filter((t) => t.id !== "lake")} tab={tab} onTab={setTab} />
          </>
        )
      }
    />
  );
}

const tabs: readonly { id: Tab; name: string }[] = [
  { id: "chats", name: "Chats" },
  { id: "lake", name: "Lake" },
  { id: "files", name: "Files" },
];

function Tabs({ tabs, tab, onTab }: { tabs: readonly { id: Tab; name: string }[]; tab: Tab; onTab(tab: Tab): void }) {
  const list = useRef<HTMLDivElement>(null);
  const key = (e: KeyboardEvent) => {
    const at = tabs.findIndex((t) => t.id === tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    if (!next) return;
    onTab(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  };
  return (
    <div ref={list} role="tablist" aria-label="What is listed" onKeyDown={key} className="mx-3 mt-2 flex gap-1 rounded-lg bg-bg p-1">
      {tabs.map((t) => (
        <button
          key={t.id}
          id={`tab-${t.id}`}
          type="button"
          role="tab"
          aria-selected={t.id === tab}
          {...(t.id === tab && tab !== "chats" && { "aria-controls": `side-${tab}` })}
          tabIndex={t.id === tab ? 0 : -1}
          onClick={() => onTab(t.id)}
          className={`h-8 flex-1 rounded-md text-sm font-medium [@media(pointer:coarse)]:h-11 ${t.id === tab ? "bg-bubble text-text-primary" : "text-text-muted hover:text-text-primary"}`}
        >
          {t.name}
        </button>
      ))}
    </div>
  );
}
