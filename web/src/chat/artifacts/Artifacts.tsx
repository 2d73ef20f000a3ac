import { Suspense, useState } from "react";

import type { ArtifactRef } from "../../api/types.gen.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { File } from "../../ui/icons.tsx";
import { oneLine } from "../../ui/tame.ts";
import { bytes } from "../../ui/text.ts";
import { lazily } from "../../ui/lazily.ts";
import { useActions } from "../use-chat.ts";
import { kindOf, type Kind } from "./kind.ts";
import { Download, fetchFirst, Picture } from "./Picture.tsx";

// Loaded late: few answers have any.
const Preview = lazily(() => import("./Preview.tsx"));

/** How many of one answer are shown; the rest are downloads. */
const most = 12;

/** The artifacts of an answer: what can be shown here is, everything else is a download. */
export function Artifacts({ artifacts }: { artifacts: readonly ArtifactRef[] }) {
  const shown = artifacts.filter((a) => kindOf(a) !== "file").slice(0, most);
  const files = artifacts.filter((a) => !shown.includes(a));
  if (artifacts.length === 0) return null;
  return (
    <div className="flex flex-col gap-3">
      {shown.map((a) => {
        const kind = kindOf(a);
        return (
          <Boundary key={a.id} fallback={<Files files={[a]} />}>
            {kind === "picture" ? <Picture artifact={a} /> : <Shown artifact={a} kind={kind} />}
          </Boundary>
        );
      })}
      {files.length > 0 && <Files files={files} />}
    </div>
  );
}

const names: Partial<Record<Kind, string>> = { table: "Table", page: "Page", pdf: "PDF", text: "Text" };

/** An artifact that is read when somebody wants to see it; a table is shown at once. */
function Shown({ artifact: a, kind }: { artifact: ArtifactRef; kind: Kind }) {
  const [open, setOpen] = useState(kind === "table");
  return (
    <figure data-artifact={kind} className="overflow-hidden rounded-xl border border-border">
      <figcaption className={`flex flex-wrap items-center gap-x-3 bg-surface px-3.5 py-1.5 text-sm ${open ? "border-b border-border" : ""}`}>
        <span className="text-text-muted">
          <File size={16} />
        </span>
        <bdi className="min-w-0 flex-1 basis-40 wrap-anywhere">{oneLine(a.name, 120)}</bdi>
        <span className="text-xs text-text-muted">
          {names[kind]}, {bytes(a.size)}
        </span>
        <span className="flex gap-3 text-xs text-text-muted">
          <button type="button" aria-expanded={open} aria-label={`${open ? "Hide" : "Show"} ${a.name}`} onClick={() => setOpen(!open)} className="inline-flex min-h-8 items-center underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11 [@media(pointer:coarse)]:min-w-11">
            {open ? "Hide" : "Show"}
          </button>
          <Download artifact={a} text="Download" />
        </span>
      </figcaption>
      {open && (
        <Suspense fallback={<div className="h-24" />}>
          <Preview artifact={a} kind={kind} />
        </Suspense>
      )}
    </figure>
  );
}

/** Artifacts as downloads. */
export function Files({ files }: { files: readonly ArtifactRef[] }) {
  const { client } = useActions();
  return (
    <ul className="flex flex-wrap gap-2" aria-label="Files">
      {files.map((a) => (
        <li key={a.id} className="max-w-full">
          <a
            href={client.artifact(a.id)}
            download={a.name}
            onClick={(e) => fetchFirst(e, client, a)}
            className="inline-flex h-9 max-w-full items-center gap-2 rounded-lg border border-border px-3 text-sm hover:bg-hover [@media(pointer:coarse)]:h-11"
          >
            <File size={16} />
            <bdi className="max-w-60 truncate">{oneLine(a.name, 120)}</bdi>
            <span className="shrink-0 text-xs text-text-muted">{bytes(a.size)}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}
