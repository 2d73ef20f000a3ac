import { memo } from "react";

import type { Attachment, ResourceRef } from "../api/types.gen.ts";
import { IconButton } from "../ui/button.tsx";
import { Rewind } from "../ui/icons.tsx";
import { LongText } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { AttachedTo } from "./Attached.tsx";
import { FilesOf } from "./Files.tsx";

interface Props {
  text: string;
  resources: readonly ResourceRef[] | undefined;
  attachments: readonly Attachment[] | undefined;
  /** Offers to go back to before it. */
  onRewind?: (() => void) | undefined;
}

export const UserMessage = memo(function UserMessage({ text, resources, attachments, onRewind }: Props) {
  return (
    <div className="group/asked ml-auto flex max-w-[78%] items-center justify-end gap-1 max-sm:max-w-[96%]">
      {onRewind && (
        <IconButton
          label="Go back to before this message"
          onClick={onRewind}
          className="opacity-0 group-focus-within/asked:opacity-100 group-hover/asked:opacity-100 focus-visible:opacity-100 [@media(hover:none)]:opacity-100"
        >
          <Rewind size={16} />
        </IconButton>
      )}
      <div dir="auto" className="min-w-0 rounded-2xl bg-bubble px-4 py-2.5 text-base plain wrap-anywhere whitespace-pre-wrap text-text-primary">
        <span dir="ltr" className="sr-only">You asked: </span>
        <LongText text={tame(text)} />
        {resources && <AttachedTo resources={resources} />}
        {attachments && <FilesOf files={attachments} />}
      </div>
    </div>
  );
}, (a, b) => a.text === b.text && a.resources === b.resources && a.attachments === b.attachments && !a.onRewind === !b.onRewind);
