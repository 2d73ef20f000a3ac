import { useCallback, useEffect, useRef, useState, type ReactNode } from "react";

import { useMedia } from "../ui/use-media.ts";
import { About } from "./About.tsx";
import { Notifications } from "./Notifications.tsx";
import { ChatCanvas } from "./ChatCanvas.tsx";
import { titleOf, useActions, useChat } from "./use-chat.ts";

interface Props {
  /** The list of sessions. */
  sidebar(props: { onChosen(): void; onClose?: () => void }): ReactNode;
  /** Additional controls for the chat's header. */
  tools?: ReactNode;
  /** Shown right of the chat. */
  children?: ReactNode;
  /** Something else on the page covers the chat. */
  covered?: boolean;
  /** Whenever it grows, the sidebar is shown. */
  wanted?: number;
}

/** The sidebar beside the chat; on a phone it opens over the chat. */
export function Frame({ sidebar, tools, children, covered = false, wanted = 0 }: Props) {
  const chat = useActions();
  const narrow = useMedia("(max-width: 767px)");
  const [drawer, setDrawer] = useState(false);
  const open = narrow && drawer;
  const opener = useRef<HTMLButtonElement>(null);
  const aside = useRef<HTMLElement>(null);
  const title = useChat(titleOf);
  const appTitle = useChat((s) => s.app?.title ?? chat.words.title);

  useEffect(() => {
    document.title = title ? `${title} · ${appTitle}` : appTitle;
  }, [title, appTitle]);

  const close = useCallback(() => {
    setDrawer(false);
    // After the page behind it is no longer inert.
    requestAnimationFrame(() => opener.current?.focus());
  }, []);

  useEffect(() => {
    if (wanted > 0) setDrawer(true);
  }, [wanted]);

  useEffect(() => {
    if (open) aside.current?.querySelector<HTMLElement>("button")?.focus();
  }, [open]);

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && (e.target.matches("input, textarea") || e.target.isContentEditable);
      if ((e.metaKey || e.ctrlKey) && e.shiftKey && e.key.toLowerCase() === "o") {
        e.preventDefault();
        chat.newChat();
        setDrawer(false);
        focusInput();
      } else if (e.key === "/" && !typing && !e.metaKey && !e.ctrlKey && !e.altKey) {
        e.preventDefault();
        focusInput();
      } else if (e.key === "Escape" && open && !e.defaultPrevented) {
        close();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, [chat, open, close]);

  return (
    <div className="flex h-full">
      {open && <div className="fixed inset-0 z-30 bg-black/60" onClick={close} aria-hidden="true" />}
      <aside
        ref={aside}
        aria-label="Conversations"
        inert={narrow && !drawer}
        className={`flex w-[260px] shrink-0 flex-col border-r border-border bg-surface ${
          narrow ? `fixed inset-y-0 left-0 z-40 transition-[translate,visibility] duration-200 ${drawer ? "" : "invisible -translate-x-full"}` : ""
        }`}
      >
        {sidebar({
          ...(narrow && { onClose: close }),
          onChosen: () => {
            setDrawer(false);
            focusInput();
          },
        })}
      </aside>
      <ChatCanvas narrow={narrow} covered={open || covered} opener={opener} onMenu={() => setDrawer(true)} tools={tools} />
      {children}
      <About />
      <Notifications />
    </div>
  );
}

/** On a touch screen, focusing would open the keyboard unasked. */
export function focusInput(): void {
  if (matchMedia("(hover: none)").matches) return;
  requestAnimationFrame(() => document.querySelector<HTMLTextAreaElement>("#message")?.focus());
}
