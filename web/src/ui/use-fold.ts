import { useState } from "react";

/** What people opened and closed themselves, by name. As long as the page. */
const left = new Map<string, boolean>();

/** Whether something that folds is open: as it was left, and as it is said to be until it was touched. */
export function useFold(name: string, opened: boolean): [open: boolean, set: (open: boolean) => void] {
  const [, redraw] = useState(0);
  const set = (open: boolean) => {
    left.set(name, open);
    redraw((n) => n + 1);
  };
  return [left.get(name) ?? opened, set];
}
