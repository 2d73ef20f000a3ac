import { createContext, use, useEffect, useState } from "react";
import { useStore } from "zustand";

import { toApiError, type ApiError } from "../api/client.ts";
import type { Files, FilesState } from "./files.ts";

export const FilesContext = createContext<Files | undefined>(undefined);

/** The files of the page; undefined where there are none. */
export function useFiles(): Files {
  const files = use(FilesContext);
  if (!files) throw new Error("no FilesContext around this component");
  return files;
}

export function useFilesState<T>(select: (s: FilesState) => T): T {
  return useStore(useFiles().store, select);
}

/** "petra" of "shared/petra". */
export const shortName = (space: string): string => space.replace(/^shared\//, "");

/** A file's content as an address that the page may show; of that type, whatever it is. */
export function useContent(path: string, type?: string, version = ""): { url: string; size?: number } | ApiError | undefined {
  const files = useFiles();
  const space = useFilesState((s) => s.space);
  const [got, setGot] = useState<{ url: string } | ApiError>();
  useEffect(() => {
    if (!space) return;
    const stop = new AbortController();
    let revoke = () => undefined as void;
    files.workspaces.fetched(space, path, type, stop.signal).then(
      (f) => {
        if (stop.signal.aborted) return f.revoke();
        revoke = f.revoke;
        setGot({ url: f.url });
      },
      (cause: unknown) => stop.signal.aborted || setGot(toApiError(cause)),
    );
    return () => {
      stop.abort();
      revoke();
      setGot(undefined);
    };
  }, [files, space, path, type, version]);
  return got;
}
