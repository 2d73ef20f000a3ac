// The resources of a message: in the box before it is sent, and under it afterwards.

import type { ResourceRef } from "../api/types.gen.ts";
import { Close, File } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { nameIn } from "./mention.ts";

const nameOf = (r: ResourceRef): string => oneLine(r.title || nameIn(r.uri), 80);
const mention = (r: ResourceRef): string => `@${r.server}:${oneLine(r.uri, 500)}`;

export function AttachedTo({ resources }: { resources: readonly ResourceRef[] }) {
  return (
    <ul dir="ltr" aria-label="Attached" className="mt-2 flex flex-wrap gap-1.5 whitespace-normal">
      {resources.map((r) => (
        <li key={mention(r)} title={mention(r)} className="flex min-w-0 items-center gap-1.5 rounded-lg bg-bg/60 px-2 py-1 text-[13px] leading-5">
          <span className="text-text-muted">
            <File size={14} />
          </span>
          <bdi className="min-w-0 wrap-anywhere">{nameOf(r)}</bdi>
          <span className="max-w-32 shrink-0 truncate text-text-muted">{r.server}</span>
        </li>
      ))}
    </ul>
  );
}

export function ToAttach({ resources, wrong, onRemove }: { resources: readonly ResourceRef[]; wrong: number | undefined; onRemove(r: ResourceRef): void }) {
  if (resources.length === 0) return null;
  return (
    <ul aria-label="Attached" className="flex max-h-32 flex-wrap gap-1.5 overflow-y-auto px-2.5 pt-2.5">
      {resources.map((r, i) => {
        const name = nameOf(r);
        return (
          <li
            key={mention(r)}
            title={mention(r)}
            className={`flex h-8 max-w-full min-w-0 items-center gap-1.5 rounded-lg border pl-2 text-[13px] leading-5 [@media(pointer:coarse)]:h-11 ${i === wrong ? "border-danger/60 bg-danger-surface" : "border-border bg-bg"}`}
          >
            <span className={i === wrong ? "text-danger" : "text-text-muted"}>
              <File size={14} />
            </span>
            <bdi className="min-w-0 wrap-anywhere">{name}</bdi>
            <span className="max-w-32 shrink-0 truncate text-text-muted">{r.server}</span>
            <button
              type="button"
              aria-label={`Remove ${name}`}
              title="Remove"
              onClick={() => onRemove(r)}
              className="inline-flex h-full w-8 shrink-0 items-center justify-center rounded-r-lg text-text-muted -outline-offset-2 hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:w-11"
            >
              <Close size={14} />
            </button>
          </li>
        );
      })}
    </ul>
  );
}
