import { createContext, use } from "react";

/** What a file of a session's workspace has. */
export type ReadFile = (session: string, path: string, signal: AbortSignal) => Promise<{ text: string } | "none" | "unknown">;

export const ReadFileContext = createContext<ReadFile | undefined>(undefined);

/** Reads files of workspaces, where the page can. */
export const useReadFile = (): ReadFile | undefined => use(ReadFileContext);
