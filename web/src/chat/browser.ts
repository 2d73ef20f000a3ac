// How the page relates to the browser: its URL, its tabs, the network.

import { onVisibility } from "../ui/visibility.ts";
import { followApp } from "./follow.ts";
import { connectWorker } from "../push/push.ts";
import { showCard } from "./interaction/reveal.ts";
import type { Chat } from "./chat.ts";

/** The session named in the URL, and the interaction to show in it. */
function named(): { session: string; interaction: string } {
  const [session = "", interaction = ""] = location.hash.replace(/^#\/?/, "").split("/");
  return { session: decoded(session), interaction: decoded(interaction) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // mistyped: as if there were none
  }
}

/** The URL fragment of a session; with an interaction, of its card. */
export const addressOf = (session: string, interaction = ""): string =>
  `#/${encodeURIComponent(session)}${interaction && `/${encodeURIComponent(interaction)}`}`;

/** Puts the colours of an accent on the page, and takes the old ones away once they are there. */
function wear(accent: string): void {
  const old = document.querySelectorAll<HTMLLinkElement>('link[rel="stylesheet"][href*="look.css"]');
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = `./look.css?accent=${encodeURIComponent(accent)}`;
  link.addEventListener("load", () => old.forEach((o) => o.remove()));
  document.head.append(link);
}

export function connectBrowser(chat: Chat): void {
  const follow = () => {
    const { session: id, interaction } = named();
    if (interaction !== "") showCard(interaction);
    const { opened } = chat.store.getState();
    if (id !== "") void chat.open(id);
    else if (opened.phase !== "new" || opened.exchanges.length > 0) chat.newChat();
  };

  // A new chat gets its URL with the first message. It replaces the URL of the empty chat, and that one comes back
  // with a message that the server refused: then there is nothing at the chat's URL.
  chat.store.subscribe(({ opened }) => {
    const want = opened.phase === "new" && opened.exchanges.length === 0 ? "" : opened.id;
    const is = named().session;
    if (want === is) return;
    const address = want === "" ? location.pathname + location.search : addressOf(want);
    if ((is === "" && opened.exchanges.length === 1) || (want === "" && is === opened.id)) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  });

  // The style sheet with the app's colours has an address of its own for each accent, so that the one in the cache is not used again.
  chat.store.subscribe(({ app }, { app: before }) => {
    if (app && before && app.page?.accent !== before.page?.accent) wear(app.page?.accent ?? "");
  });

  addEventListener("popstate", follow);
  addEventListener("focus", () => void chat.refreshApp()); // an editor beside the page does not hide it
  addEventListener("online", () => chat.reconnect());
  onVisibility(
    () => chat.visible(false),
    () => chat.visible(true),
  );
  const unfollow = followApp(chat);
  addEventListener("pagehide", () => {
    unfollow();
    chat.close();
  });
  addEventListener("pageshow", (e) => {
    if (e.persisted) location.reload(); // from the back-forward cache, with its connection closed
  });

  follow();
  void chat.refresh();
  chat.inbox.start();
  connectWorker(chat.client, {
    open: (hash) => {
      history.pushState(null, "", hash || location.pathname + location.search);
      follow();
    },
    news: () => void chat.inbox.refresh(),
  }).catch(() => undefined); // the page works without notifications, and the next start tries again
}
