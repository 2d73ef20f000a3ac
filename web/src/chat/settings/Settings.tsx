import { Suspense, useState } from "react";

import { Confirm } from "../../ui/confirm.tsx";
import { Bolt, Check, Eye, Hand, Pencil, Pin } from "../../ui/icons.tsx";
import { Menu, MenuChoice } from "../../ui/menu.tsx";
import { lazily } from "../../ui/lazily.ts";
import { useActions, useChat } from "../use-chat.ts";
import { ReadOnly } from "../Forked.tsx";
import { ApprovalsButton } from "./ApprovalsButton.tsx";
import { ModelMenu } from "./ModelMenu.tsx";
import { offersMode, showsMode } from "./modes.ts";
import { RuntimeMenu } from "./RuntimeMenu.tsx";

const PinsEditor = lazily(() => import("./PinsEditor.tsx"));
const RulesList = lazily(() => import("./RulesList.tsx"));

const modes = [
  { mode: "default", name: "Asks first", hint: "Reads at will, and asks before it changes anything.", Icon: Hand },
  { mode: "acceptEdits", name: "Edits files", hint: "Changes files of the workspace at once, and asks before anything else.", Icon: Pencil },
  { mode: "plan", name: "Plans only", hint: "Reads and proposes; nothing is changed.", Icon: Eye },
  { mode: "bypassPermissions", name: "Acts at once", hint: "Does not ask. What the app forbids stays forbidden.", Icon: Bolt },
] as const;

/** Which model answers, how much the conversation asks before it acts, and its pins. */
export function Settings() {
  const chat = useActions();
  const mode = useChat((s) => s.opened.records.mode);
  const app = useChat((s) => s.app);
  const shown = useChat((s) => showsMode(s.app, s.opened.records.mode));
  const pins = useChat((s) => s.opened.records.pins.length);
  const rules = useChat((s) => s.opened.records.rules.length);
  const ended = useChat((s) => s.opened.phase === "ended" || s.opened.phase === "local");
  const [asking, setAsking] = useState(false);
  const [editing, setEditing] = useState(false);
  const [listing, setListing] = useState(false);
  if (ended) return null;
  const choices = modes.filter((m) => offersMode(app, m.mode));
  const now = modes.find((m) => m.mode === mode);
  const Icon = now?.Icon ?? Hand;
  const name = now?.name ?? mode;
  const row = "inline-flex h-7 items-center gap-1.5 rounded-md px-2 text-xs hover:bg-hover [@media(pointer:coarse)]:h-11";
  return (
    <div className="-mb-2 -ml-1 flex flex-wrap items-center gap-x-1 pt-1.5">
      {/* First, because the rest comes when the app is known, and must not move it. */}
      <button type="button" aria-haspopup="dialog" onClick={() => setEditing(true)} className={`${row} text-text-muted hover:text-text-primary`}>
        <Pin size={14} />
        {pins === 0 ? "Pins" : `${pins} ${pins === 1 ? "pin" : "pins"}`}
      </button>
      {shown && <Menu
        align="start"
        label={`Permissions: ${name.toLowerCase()}`}
        text={name}
        className={`${row} ${mode === "bypassPermissions" ? "text-danger" : mode === "default" ? "text-text-muted" : "text-link"}`}
        icon={<Icon size={14} />}
      >
        {choices.map((m) => (
          <MenuChoice
            key={m.mode}
            icon={<m.Icon size={16} />}
            hint={m.hint}
            chosen={m.mode === mode}
            onSelect={() => (m.mode === "bypassPermissions" && mode !== m.mode ? setAsking(true) : void chat.setMode(m.mode))}
          >
            {m.name}
          </MenuChoice>
        ))}
      </Menu>}
      <ModelMenu className={row} />
      <RuntimeMenu className={row} />
      <ApprovalsButton className={row} />
      <ReadOnly className={row} />
      {rules > 0 && (
        <button type="button" aria-haspopup="dialog" onClick={() => setListing(true)} className={`${row} text-text-muted hover:text-text-primary`}>
          <Check size={14} />
          {rules} allowed
        </button>
      )}
      {asking && (
        <Confirm title="Act without asking?" action="Act at once" onConfirm={() => void chat.setMode("bypassPermissions")} onClose={() => setAsking(false)}>
          In this conversation you are not asked any more. The agent does at once whatever the app permits. What the app forbids stays
          forbidden, and everything is in the log.
        </Confirm>
      )}
      {editing && (
        <Suspense>
          <PinsEditor onClose={() => setEditing(false)} />
        </Suspense>
      )}
      {listing && (
        <Suspense>
          <RulesList onClose={() => setListing(false)} />
        </Suspense>
      )}
    </div>
  );
}
