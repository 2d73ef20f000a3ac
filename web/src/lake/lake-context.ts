import { createContext } from "react";

import type { Lake } from "./lake.ts";

export interface ShownLake {
  lake: Lake;
  /** Shows the list of the lake. */
  list(): void;
}

/** The lake of the workspace that is shown; undefined: it has none. */
export const LakeContext = createContext<ShownLake | undefined>(undefined);
