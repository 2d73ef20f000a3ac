import { useCallback, useEffect, useRef, useState, type ChangeEvent, type ClipboardEvent } from "react";

import type { Attachment } from "../api/types.gen.ts";
import { UploadList } from "./uploads.ts";
import { useActions } from "./use-chat.ts";

/** What is not sent, by session. */
const lists = new Map<string, UploadList>();
const listeners = new Map<string, () => void>();

const isFiles = (e: DragEvent): boolean => e.dataTransfer?.types.includes("Files") ?? false;

/** The files of the next message in a session: chosen, pasted, or dropped anywhere on the page. */
export function useUploads(session: string) {
  const chat = useActions();
  const input = useRef<HTMLInputElement>(null);
  const [, redraw] = useState(0);
  const [over, setOver] = useState(false);
  let list = lists.get(session);
  if (!list) {
    list = new UploadList((file, signal, sent) => chat.attach(file, signal, sent), () => listeners.get(session)?.());
    lists.set(session, list);
  }
  const uploads = list;

  useEffect(() => {
    listeners.set(session, () => redraw((n) => n + 1));
    return () => void listeners.delete(session);
  }, [session]);

  const add = useCallback((files: Iterable<File>) => uploads.add(files, (f) => (/^image\/(png|jpeg|gif|webp)$/.test(f.type) ? URL.createObjectURL(f) : undefined)), [uploads]);

  useEffect(() => {
    let depth = 0;
    const enter = (e: DragEvent) => {
      if (!isFiles(e)) return;
      e.preventDefault();
      depth++;
      setOver(true);
    };
    const leave = (e: DragEvent) => {
      if (isFiles(e) && --depth <= 0) setOver(false);
    };
    const move = (e: DragEvent) => {
      if (isFiles(e)) e.preventDefault();
    };
    const drop = (e: DragEvent) => {
      if (!isFiles(e) || e.defaultPrevented) return;
      e.preventDefault();
      depth = 0;
      setOver(false);
      add(e.dataTransfer?.files ?? []);
    };
    addEventListener("dragenter", enter);
    addEventListener("dragleave", leave);
    addEventListener("dragover", move);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragenter", enter);
      removeEventListener("dragleave", leave);
      removeEventListener("dragover", move);
      removeEventListener("drop", drop);
    };
  }, [add]);

  return {
    uploads: uploads.now,
    over,
    input,
    remove: (key: number) => uploads.remove(key),
    retry: (key: number) => uploads.retry(key),
    take: (): Attachment[] => uploads.take(),
    put: useCallback((files: readonly Attachment[]) => uploads.put(files), [uploads]),
    chosen: (e: ChangeEvent<HTMLInputElement>) => {
      add([...(e.currentTarget.files ?? [])]);
      e.currentTarget.value = ""; // the same file can be chosen again
    },
    /** Text is pasted as always; of something that is both, such as cells of a table, the text counts. */
    pasted: (e: ClipboardEvent<HTMLTextAreaElement>) => {
      const files = [...e.clipboardData.files];
      if (files.length === 0 || e.clipboardData.types.includes("text/plain")) return;
      e.preventDefault();
      add(files);
    },
  };
}
