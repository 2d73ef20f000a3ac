/** A tab hidden for longer, in ms, closes its connections: a browser allows few to one host. */
const hiddenFor = 30_000;

/**
 * Calls hidden when the tab has been hidden for 30 s, also if it was opened in the background,
 * and shown when it is seen. Returns what ends this.
 */
export function onVisibility(hidden: () => void, shown: () => void): () => void {
  let hiding: ReturnType<typeof setTimeout> | undefined;
  const changed = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(hidden, hiddenFor);
    else shown();
  };
  if (document.hidden) changed();
  document.addEventListener("visibilitychange", changed);
  return () => {
    document.removeEventListener("visibilitychange", changed);
    clearTimeout(hiding);
  };
}
