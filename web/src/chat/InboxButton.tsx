import { lazy, Suspense, useState } from "react";
import { useStore } from "zustand";

import { IconButton } from "../ui/button.tsx";
import { awaitedBy } from "../session/inbox.ts";
import { Tray } from "../ui/icons.tsx";
import { useActions } from "./use-chat.ts";

const Inbox = lazy(() => import("./Inbox.tsx"));

/** Opens the inbox, and shows how many questions wait over all sessions. */
export function InboxButton() {
  const { inbox } = useActions();
  const count = useStore(inbox.store, (s) => s.rows?.filter((r) => awaitedBy(r) === "person").length ?? 0);
  const [open, setOpen] = useState(false);
  return (
    <>
      <IconButton
        label={count === 0 ? "Inbox: nothing waits for you" : `Inbox: ${count} ${count === 1 ? "question waits" : "questions wait"} for you`}
        aria-haspopup="dialog"
        onClick={() => {
          void inbox.refresh();
          setOpen(true);
        }}
      >
        <span className="relative">
          <Tray />
          {count > 0 && (
            <span
              aria-hidden="true"
              data-badge
              className="absolute -top-2.5 left-2.5 min-w-4.5 rounded-full bg-accent-hover px-1 text-center text-[11px] leading-4.5 font-semibold text-on-accent tabular-nums"
            >
              {count > 99 ? "99+" : count}
            </span>
          )}
        </span>
      </IconButton>
      {open && (
        <Suspense>
          <Inbox onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
