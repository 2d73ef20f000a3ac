// An app's files may change while its page is open, and nothing announces that.

/** How often a page that can be seen looks whether its app has changed, in ms. */
const lookEvery = 10_000;

/** Reads the app again and again while the page can be seen. Returns what ends this. */
export function followApp(chat: { refreshApp(): Promise<void> }, seen: () => boolean = () => !document.hidden): () => void {
  const timer = setInterval(() => {
    if (seen()) void chat.refreshApp();
  }, lookEvery);
  return () => clearInterval(timer);
}
