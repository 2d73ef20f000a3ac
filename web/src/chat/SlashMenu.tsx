import { useEffect, useMemo, useState, type KeyboardEvent } from "react";

import type { SlashCommand } from "../api/client.ts";
import { showAbout } from "./About.tsx";
import { commandsOf, doneHere, matching, type Slash } from "./slash.ts";
import { useActions, useChat } from "./use-chat.ts";

const pages: readonly Slash[] = [
  { name: "about", here: true, description: "What this app is, what it may do, and what it cost" },
  { name: "new", here: true, description: "Begins a new conversation" },
];

/** What is offered while the name of a command is typed. */
export function useSlash(text: string, setText: (text: string) => void) {
  const chat = useActions();
  const session = useChat((s) => s.opened.id);
  const [own, setOwn] = useState<readonly SlashCommand[]>([]);
  const all = useMemo(() => commandsOf(own, pages), [own]);
  // They are files, which may change: they are read when somebody begins to write one.
  const begun = text.startsWith("/");
  useEffect(() => {
    if (!begun) return;
    let late = false;
    chat.commands().then(
      (list) => late || setOwn(list),
      () => undefined, // a command can be written without the list
    );
    return () => void (late = true);
  }, [chat, session, begun]);
  const [at, setAt] = useState(0);
  const [closed, setClosed] = useState("");
  const found = closed === text ? [] : matching(text, all);
  const chosen = Math.min(at, found.length - 1);
  const open = found.length > 0;

  const choose = (c: Slash | undefined) => {
    if (!c) return;
    setAt(0);
    setText(`/${c.name} `);
  };

  return {
    found,
    chosen,
    choose,
    /** A command's name takes Enter when it is not complete. */
    onKey(e: KeyboardEvent): boolean {
      if (!open || e.nativeEvent.isComposing) return false;
      const complete = found[chosen]?.name === text.slice(1).toLowerCase();
      if (e.key === "ArrowDown" || e.key === "ArrowUp") setAt((chosen + (e.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
      else if (e.key === "Tab" && !e.shiftKey) choose(found[chosen]);
      else if (e.key === "Enter" && !e.shiftKey && !complete) choose(found[chosen]);
      else if (e.key === "Escape") setClosed(text);
      else return false;
      e.preventDefault();
      return true;
    },
    /** The message to send; undefined: the page did what it says. */
    expand(message: string): string | undefined {
      const here = doneHere(message, all);
      if (here === undefined) return message;
      if (here === "new") chat.newChat();
      else showAbout();
      return undefined;
    },
    field: open ? ({ "aria-controls": "commands", "aria-activedescendant": `command-${chosen}`, "aria-autocomplete": "list" } as const) : {},
  };
}

export function SlashMenu({ slash }: { slash: ReturnType<typeof useSlash> }) {
  if (slash.found.length === 0) return null;
  return (
    <ul id="commands" role="listbox" aria-label="Commands" className="relative max-h-64 overflow-y-auto border-b border-border p-1 text-sm">
      {slash.found.map((c, i) => (
        <li
          key={c.name}
          id={`command-${i}`}
          role="option"
          aria-selected={i === slash.chosen}
          ref={(e) => {
            if (i === slash.chosen) e?.scrollIntoView({ block: "nearest" });
          }}
          onPointerDown={(e) => e.preventDefault()} // the focus stays in the field
          onClick={() => slash.choose(c)}
          className="flex cursor-pointer items-baseline gap-3 rounded-lg px-2.5 py-1.5 hover:bg-hover aria-selected:bg-hover [@media(pointer:coarse)]:py-3"
        >
          <code className="shrink-0 font-mono text-[13px] text-link">/{c.name}</code>
          <span className="min-w-0 truncate text-text-muted">{c.argument_hint && <code className="mr-2 font-mono text-[13px]">{c.argument_hint}</code>}
            {c.description}</span>
        </li>
      ))}
    </ul>
  );
}
