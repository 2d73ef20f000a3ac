import { Suspense, useEffect, useRef, useState } from "react";

import { useActions, useChat } from "../chat/use-chat.ts";
import { mostEntities, titleIn } from "../lake/entities.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Confirm } from "../ui/confirm.tsx";
import { Back, Clock, Close, Dots, Download, Forth, Pencil, Pin, Trash } from "../ui/icons.tsx";
import { lazily } from "../ui/lazily.ts";
import { Menu, MenuItem } from "../ui/menu.tsx";
import { oneLine } from "../ui/tame.ts";
import { sentence } from "../ui/text.ts";
import { FileBody } from "./FileBody.tsx";
import { draftKey, isChanged } from "./files.ts";
import { hasView, kindOf } from "./kind.ts";
import { NameDialog } from "./NameDialog.tsx";
import { folderOf, nameOf } from "./tree.ts";
import { useFiles, useFilesState } from "./use-files.ts";

const HistoryDialog = lazily(() => import("./HistoryDialog.tsx"));
const EditPane = lazily(() => import("./EditPane.tsx"));

/** A button that fits into the header, and is as high as a finger needs on a touch screen. */
const low = "h-8! [@media(pointer:coarse)]:h-11!";

/** The open file, beside the chat or over it. */
export default function FilePanel({ onClose }: { onClose(): void }) {
  const files = useFiles();
  const chat = useActions();
  const entities = useChat((s) => s.opened.records.entities);
  const works = useChat((s) => s.opened.records.workspace);
  const phase = useChat((s) => s.opened.phase);
  const doc = useFilesState((s) => s.doc);
  const space = useFilesState((s) => s.space);
  const draft = useFilesState((s) => (s.space && s.doc ? s.drafts.get(draftKey(s.space, s.doc.path)) : undefined));
  const backs = useFilesState((s) => s.back.length);
  const forths = useFilesState((s) => s.forward.length);
  const [source, setSource] = useState(false);
  const [asking, setAsking] = useState<"" | "discard" | "delete" | "move" | "history">("");
  const [said, setSaid] = useState("");
  const [problem, setProblem] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  const path = doc?.path ?? "";
  const version = doc?.file?.version;

  useEffect(() => {
    setSaid("");
    setProblem("");
    setSource(false);
    // Who opened a file by the keyboard goes on reading here.
    if (path !== "" && document.activeElement?.closest("[data-file-panel]")) heading.current?.focus({ preventScroll: true });
  }, [path]);
  const changed = draft !== undefined && isChanged(draft);
  useEffect(() => {
    if (changed) setSaid("");
  }, [changed]);

  if (!doc || !space) return null;
  const { file } = doc;
  const kind = file && kindOf(file);
  const viewed = kind !== undefined && hasView(kind);
  const readOnly = space.read_only === true;
  const editable = !readOnly && (doc.state === "missing" || (file?.text !== undefined && !file.next_line && !file.cut));
  const folder = folderOf(path);
  const attached = entities.some((e) => e.path === path);
  // A conversation shows the files of its own folder.
  const attachable = kind === "markdown" && (works === "" || works === space.name) && phase !== "ended" && (attached || entities.length < mostEntities);
  const preview = draft !== undefined && source && file !== undefined;
  const save = async () => {
    if (await files.save()) setSaid("Saved");
  };
  const done = () => (changed ? setAsking("discard") : files.discard());
  const download = () => {
    void files.workspaces.fetched(space, path, undefined).then(
      ({ url, revoke }) => {
        const link = document.createElement("a");
        link.href = url;
        link.download = nameOf(path);
        link.click();
        setTimeout(revoke, 60_000);
      },
      (cause: unknown) => setProblem(cause instanceof Error ? sentence(cause.message) : "It could not be downloaded."),
    );
  };
  return (
    <div data-file-panel className="flex h-full min-h-0 flex-col">
      <header className="flex min-h-13 shrink-0 flex-wrap items-center gap-x-1 border-b border-border py-1 pr-2 pl-1.5">
        {backs + forths > 0 && (
          <IconButton label="Back to the file before" disabled={backs === 0} onClick={() => void files.goBack()}>
            <Back size={16} />
          </IconButton>
        )}
        {forths > 0 && (
          <IconButton label="Forward" onClick={() => void files.goForward()}>
            <Forth size={16} />
          </IconButton>
        )}
        <h2 ref={heading} tabIndex={-1} className="min-w-24 flex-1 truncate px-1 text-sm leading-5 font-semibold outline-none" title={path}>
          <bdi>{oneLine(nameOf(path), 160)}</bdi>
          {changed && <span className="ml-1.5 inline-block size-1.5 rounded-full bg-accent align-middle" aria-hidden="true" />}
          {changed && <span className="sr-only"> (not saved)</span>}
          {folder !== "" && <bdi className="block truncate text-xs leading-4 font-normal text-text-muted">{oneLine(folder, 160)}</bdi>}
        </h2>
        <span role="status" className="text-xs text-text-muted empty:hidden">
          {said}
        </span>
        <div className="flex items-center gap-1 empty:hidden max-sm:order-last max-sm:w-full max-sm:justify-end max-sm:pt-1">
          {draft ? (
            <>
              {viewed && (
                <Button kind="quiet" className={low} onClick={() => setSource(!source)}>
                  {source ? "Edit" : "Preview"}
                </Button>
              )}
              <Button kind="accent" className={low} busy={draft.saving || !changed} title="Save (Ctrl+S)" onClick={() => void save()}>
                {draft.saving ? "Saving…" : "Save"}
              </Button>
              <Button kind="quiet" className={low} onClick={done}>
                {changed ? "Discard…" : "Done"}
              </Button>
            </>
          ) : (
            <>
              {viewed && (
                <Button kind="quiet" className={low} onClick={() => setSource(!source)}>
                  {source ? "View" : "Source"}
                </Button>
              )}
              {editable && doc.state === "read" && (
                <Button kind="quiet" className={low} onClick={() => (setSource(false), files.edit())}>
                  <Pencil size={14} />
                  Edit
                </Button>
              )}
            </>
          )}
        </div>
        {file && (
          <Menu label={`Actions for ${nameOf(path)}`} icon={<Dots size={16} />}>
            {attachable && (
              <MenuItem icon={<Pin size={16} />} onSelect={() => void chat.setEntities(attached ? entities.filter((e) => e.path !== path) : [...entities, { path, title: titleIn(file.text ?? "", path) }])}>
                {attached ? "Detach from this conversation" : "Attach to this conversation"}
              </MenuItem>
            )}
            <MenuItem icon={<Download size={16} />} onSelect={download}>
              Download
            </MenuItem>
            <MenuItem icon={<Clock size={16} />} onSelect={() => setAsking("history")}>
              History
            </MenuItem>
            {!readOnly && (
              <MenuItem icon={<Pencil size={16} />} onSelect={() => setAsking("move")}>
                Rename or move
              </MenuItem>
            )}
            {!readOnly && (
              <MenuItem danger icon={<Trash size={16} />} onSelect={() => setAsking("delete")}>
                Delete
              </MenuItem>
            )}
          </Menu>
        )}
        <IconButton label="Close the file" onClick={onClose}>
          <Close size={18} />
        </IconButton>
      </header>
      {problem !== "" && (
        <p role="alert" className="border-b border-border px-4 py-2 text-sm text-danger">
          {problem}
        </p>
      )}
      {draft && !preview ? (
        <Suspense fallback={null}>
          <EditPane path={path} draft={draft} onSave={() => void save()} />
        </Suspense>
      ) : doc.state === "missing" ? (
        <Missing path={path} onCreate={readOnly ? undefined : () => files.edit()} />
      ) : doc.state === "failed" && !file ? (
        <div role="alert" className="m-auto max-w-80 p-6 text-center text-sm">
          <p>{sentence(doc.error?.message)}</p>
          <p className="mb-3 text-text-muted">{sentence(doc.error?.hint)}</p>
          <Button onClick={() => void files.reread()}>Try again</Button>
        </div>
      ) : file ? (
        <FileBody file={file} {...(draft && { text: draft.text })} source={draft ? false : source} heading={doc.heading} wish={doc.wish} />
      ) : (
        <div aria-hidden="true" className="m-5 flex animate-pulse-soft flex-col gap-3">
          <div className="h-7 w-2/5 rounded bg-surface" />
          <div className="h-4 w-4/5 rounded bg-surface" />
          <div className="h-4 w-3/5 rounded bg-surface" />
        </div>
      )}
      {draft && !preview && <p className="shrink-0 border-t border-border px-4 py-1 text-xs text-text-muted max-sm:hidden">Ctrl+S saves. Esc, then Tab leaves the text. [[ links a note.</p>}
      {asking === "discard" && (
        <Confirm title="Discard what you typed?" action="Discard" onConfirm={() => files.discard()} onClose={() => setAsking("")}>
          What you changed in “<bdi>{oneLine(nameOf(path), 120)}</bdi>” is not saved.
        </Confirm>
      )}
      {asking === "delete" && (
        <Confirm
          title="Delete this file?"
          action="Delete"
          onConfirm={() => void files.remove().catch((cause: Error) => setProblem(`It was not deleted. ${sentence(cause.message)}`))}
          onClose={() => setAsking("")}
        >
          “<bdi>{oneLine(path, 200)}</bdi>” will be deleted from the workspace{version !== undefined && ", if it is still as you see it"}.
        </Confirm>
      )}
      {asking === "history" && file && (
        <Suspense fallback={null}>
          <HistoryDialog file={file} editable={editable && doc.state === "read"} onClose={() => setAsking("")} />
        </Suspense>
      )}
      {asking === "move" && <NameDialog title="Rename or move" label="Its new path" action="Move" value={path} onClose={() => setAsking("")} onDone={(to) => files.move(to)} />}
    </div>
  );
}

function Missing({ path, onCreate }: { path: string; onCreate: (() => void) | undefined }) {
  return (
    <div className="m-auto max-w-80 p-6 text-center text-sm">
      <p>
        There is no <bdi className="font-medium wrap-anywhere">{oneLine(path, 200)}</bdi>.
      </p>
      {onCreate && (
        <Button className="mt-3" onClick={onCreate}>
          Create it
        </Button>
      )}
    </div>
  );
}
