import { createContext, use } from "react";

/** Opens a file of the session's workspace beside the chat. Undefined where the page shows no files. */
export type OpenFile = (path: string) => void;

export const OpenFileContext = createContext<OpenFile | undefined>(undefined);

export const useOpenFile = (): OpenFile | undefined => use(OpenFileContext);
