import { use } from "react";

import { Close, Pin } from "../ui/icons.tsx";
import { oneLine } from "../ui/tame.ts";
import { OpenFileContext } from "./changes/open-file.ts";
import { useActions, useChat } from "./use-chat.ts";

/** The files that are attached to the conversation, above the message box. */
export function Entities() {
  const chat = useActions();
  const entities = useChat((s) => s.opened.records.entities);
  const ended = useChat((s) => s.opened.phase === "ended");
  const open = use(OpenFileContext);
  if (entities.length === 0) return null;
  const high = "[@media(pointer:coarse)]:h-11";
  return (
    <ul aria-label="Attached to this conversation" className="flex max-h-32 flex-wrap gap-1.5 overflow-y-auto px-2.5 pt-2.5">
      {entities.map((e) => {
        const name = oneLine(e.title || e.path, 80);
        return (
          <li key={e.path} title={`${e.path}: every question shows it as it is then`} className={`flex h-8 max-w-full min-w-0 items-center rounded-lg border border-border bg-bg pl-2 text-[13px] leading-5 ${high}`}>
            <span className="mr-1.5 text-text-muted">
              <Pin size={14} />
            </span>
            {open ? (
              <button type="button" onClick={() => open(e.path)} className="h-full min-w-0 truncate underline-offset-2 hover:underline">
                <bdi>{name}</bdi>
              </button>
            ) : (
              <bdi className="min-w-0 truncate">{name}</bdi>
            )}
            {ended ? (
              <span className="w-2" />
            ) : (
              <button
                type="button"
                aria-label={`Detach ${name}`}
                title="Detach"
                onClick={() => void chat.setEntities(entities.filter((x) => x.path !== e.path))}
                className="ml-1 inline-flex h-full w-8 shrink-0 items-center justify-center rounded-r-lg text-text-muted -outline-offset-2 hover:bg-hover hover:text-text-primary [@media(pointer:coarse)]:w-11"
              >
                <Close size={14} />
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}
