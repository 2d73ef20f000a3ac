import { useState } from "react";

/** What readers opened and closed themselves, by name, for the life of the page. */
const left = new Map<string, boolean>();

/** Whether something foldable is open: as the reader left it, or as given until the reader touches it. */
export function useFold(name: string, opened: boolean): [open: boolean, set: (open: boolean) => void] {
  const [, redraw] = useState(0);
  const set = (open: boolean) => {
    left.set(name, open);
    redraw((n) => n + 1);
  };
  return [left.get(name) ?? opened, set];
}
