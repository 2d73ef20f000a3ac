import { useState } from "react";

import { inPageWords } from "../api/words.ts";
import { IconButton } from "../ui/button.tsx";
import { Close } from "../ui/icons.tsx";
import { useActions, useChat } from "./use-chat.ts";

/** Messages from the server to people: shown once each, and again when they change. */
export function Notices() {
  const app = useChat((s) => s.app);
  const key = `parley.${useActions().app}.noticed`;
  const [seen, setSeen] = useState(() => read(key));
  const notices = app?.notices.map(inPageWords) ?? [];
  const text = notices.join(" ");
  const said = sameAs(text);
  if (text === "" || seen === said) return null;
  return (
    <div role="note" className="mb-2 flex items-center rounded-xl border border-border bg-surface py-0.5 pr-0.5 pl-3 text-[13px] leading-5 text-text-muted">
      <div className="flex min-w-0 flex-1 flex-col gap-1 py-1 wrap-anywhere">
        {notices.map((n) => <p key={n}>{n}</p>)}
      </div>
      <IconButton
        label="Got it"
        onClick={() => {
          setSeen(said);
          try {
            localStorage.setItem(key, said);
          } catch {
            // No storage: it is shown again next time.
          }
        }}
      >
        <Close size={16} />
      </IconButton>
    </div>
  );
}

/** A notice that counts down says the same as a moment ago. */
export const sameAs = (text: string): string => text.replace(/\b(?:\d+h)?(?:\d+m)?\d+s\b/g, "…");

function read(key: string): string {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}
