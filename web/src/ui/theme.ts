import { useSyncExternalStore } from "react";

export const themes = ["dark", "light", "system"] as const;
export type Theme = (typeof themes)[number];

// public/theme.js reads the same key before the first paint.
const key = "parley.theme";
const listeners = new Set<() => void>();

function current(): Theme {
  const set = document.documentElement.dataset["theme"];
  return set === "light" || set === "system" ? set : "dark";
}

function show(theme: Theme): void {
  if (theme === "dark") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  const bar = getComputedStyle(document.documentElement).getPropertyValue("--color-bg").trim();
  document.querySelector('meta[name="theme-color"]')?.setAttribute("content", bar);
  for (const tell of listeners) tell();
}

export function setTheme(theme: Theme): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // No storage: the choice holds until the page is closed.
  }
  show(theme);
}

function subscribe(tell: () => void): () => void {
  listeners.add(tell);
  const other = (e: StorageEvent) => {
    if (e.key === key) show(e.newValue === "light" || e.newValue === "system" ? e.newValue : "dark");
  };
  addEventListener("storage", other); // chosen in another tab
  return () => {
    listeners.delete(tell);
    removeEventListener("storage", other);
  };
}

export const useTheme = (): Theme => useSyncExternalStore(subscribe, current);
