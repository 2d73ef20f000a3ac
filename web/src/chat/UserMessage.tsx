import { memo } from "react";

import type { ResourceRef } from "../api/types.gen.ts";
import { LongText } from "../ui/long-text.tsx";
import { tame } from "../ui/tame.ts";
import { AttachedTo } from "./Attached.tsx";

export const UserMessage = memo(function UserMessage({ text, resources }: { text: string; resources: readonly ResourceRef[] | undefined }) {
  return (
    <div dir="auto" className="ml-auto max-w-[70%] rounded-2xl bg-bubble px-4 py-2.5 text-base plain wrap-anywhere whitespace-pre-wrap text-text-primary max-sm:max-w-[85%]">
      <span dir="ltr" className="sr-only">You asked: </span>
      <LongText text={tame(text)} />
      {resources && <AttachedTo resources={resources} />}
    </div>
  );
});
