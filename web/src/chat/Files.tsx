// The files of a message: in the box before it is sent, and under it afterwards.

import type { Attachment } from "../api/types.gen.ts";
import { Alert, Close, Download as Down, File, Retry } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { fetchFirst, useAddress } from "./artifacts/Picture.tsx";
import { sizeText, type Upload, type Uploads } from "./uploads.ts";
import { useActions } from "./use-chat.ts";

/** The files of a message that was sent, each with a link to it. */
export function FilesOf({ files }: { files: readonly Attachment[] }) {
  return (
    <ul dir="ltr" aria-label="Attached files" className="mt-2 flex flex-wrap gap-1.5 whitespace-normal">
      {files.map((f) => (
        <li key={f.id} className="min-w-0">
          <Given file={f} />
        </li>
      ))}
    </ul>
  );
}

function Given({ file: f }: { file: Attachment }) {
  const { client } = useActions();
  const name = oneLine(f.name, 80) || "file";
  return (
    <a
      href={client.artifact(f.id)}
      download={f.name || "file"}
      title={f.unread ? `${name}: ${f.unread}` : name}
      onClick={(e) => fetchFirst(e, client, { ...f, sha256: f.sha256 ?? "" })}
      className="flex max-w-full min-w-0 items-center gap-2 rounded-lg bg-bg/60 py-1 pr-2 pl-1 text-[13px] leading-5 -outline-offset-1 hover:bg-hover [@media(pointer:coarse)]:min-h-11"
    >
      {f.image ? <Thumbnail id={f.id} /> : <Sign unread={Boolean(f.unread)} />}
      <span className="min-w-0">
        <span className="sr-only">Download </span>
        <bdi className="block wrap-anywhere">{name}</bdi>
        <span className="block text-xs leading-4 text-text-muted">
          {sizeText(f.size)}
          {f.unread && " · not readable"}
        </span>
      </span>
      <span className="text-text-muted">
        <Down size={14} />
      </span>
    </a>
  );
}

function Thumbnail({ id }: { id: string }) {
  const { client } = useActions();
  const address = useAddress(client, id, () => undefined);
  return <span className="block size-12 shrink-0 overflow-hidden rounded-md bg-bg">{address && <img src={address} alt="" loading="lazy" className="size-full object-cover" />}</span>;
}

function Sign({ unread }: { unread: boolean }) {
  return <span className={`inline-flex size-9 shrink-0 items-center justify-center rounded-md bg-bg ${unread ? "text-danger" : "text-text-muted"}`}>{unread ? <Alert size={16} /> : <File size={16} />}</span>;
}

interface Props {
  uploads: Uploads;
  onRemove(key: number): void;
  onRetry(key: number): void;
}

/** The files that the next message will have. */
export function ToSend({ uploads, onRemove, onRetry }: Props) {
  return (
    <>
      <p role="status" className="sr-only">
        {uploads.says}
      </p>
      {uploads.list.length > 0 && (
        <ul aria-label="Files" className="flex max-h-44 flex-wrap gap-1.5 overflow-y-auto px-2.5 pt-2.5">
          {uploads.list.map((u) => (
            <Chip key={u.key} upload={u} onRemove={() => onRemove(u.key)} onRetry={() => onRetry(u.key)} />
          ))}
        </ul>
      )}
    </>
  );
}

const small = "inline-flex size-8 shrink-0 items-center justify-center rounded-lg text-text-muted -outline-offset-2 hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:size-11";

const underWay = ({ size, percent }: Upload): string =>
  percent === undefined ? `Uploading ${sizeText(size)}…` : percent < 100 ? `${percent} % of ${sizeText(size)}` : `${sizeText(size)}, being read…`;

function Chip({ upload: u, onRemove, onRetry }: { upload: Upload; onRemove(): void; onRetry(): void }) {
  const name = oneLine(u.name, 60) || "file";
  const unread = u.attachment?.unread;
  const failed = u.state === "failed";
  return (
    <li
      title={name}
      className={`flex max-w-full min-w-0 items-center gap-2 rounded-lg border py-1 pl-1 text-[13px] leading-5 ${failed ? "border-danger/60 bg-danger-surface" : "border-border bg-bg"}`}
    >
      {u.picture ? (
        <img src={u.picture} alt="" className="size-9 shrink-0 rounded-md object-cover" />
      ) : u.attachment?.image ? (
        <Thumbnail id={u.attachment.id} />
      ) : (
        <Sign unread={failed || Boolean(unread)} />
      )}
      <span className="max-w-60 min-w-0">
        <bdi className="block truncate">{name}</bdi>
        <span className={`block text-xs leading-4 ${failed ? "text-danger" : "text-text-muted"}`}>
          {failed ? u.error : u.state === "uploading" ? underWay(u) : unread ? `Not readable: ${unread}` : sizeText(u.size)}
        </span>
        {u.state === "uploading" && (
          <span role="progressbar" aria-label={`Upload of ${name}`} {...(u.percent !== undefined && { "aria-valuenow": u.percent })} className="mt-1 block h-0.5 overflow-hidden rounded bg-border">
            <span
              className={`block h-full rounded bg-accent ${u.percent === undefined || u.percent === 100 ? "animate-pulse motion-reduce:animate-none" : ""}`}
              style={{ width: `${u.percent ?? 33}%` }}
            />
          </span>
        )}
      </span>
      <span className="flex shrink-0">
        {failed && u.file && (
          <button type="button" aria-label={`Upload ${name} again`} title="Try again" onClick={onRetry} className={small}>
            <Retry size={14} />
          </button>
        )}
        <button type="button" aria-label={`${u.state === "uploading" ? "Cancel the upload of" : "Remove"} ${name}`} title={u.state === "uploading" ? "Cancel" : "Remove"} onClick={onRemove} className={small}>
          <Close size={14} />
        </button>
      </span>
    </li>
  );
}
