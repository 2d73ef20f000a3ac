// The worker of Parley's pages. It shows what the server sends by web push, and takes answers from
// the notifications. It keeps and answers no requests, so a page never sees anything that is old.

const base = new URL("./", self.location.href);

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => event.waitUntil(pushed(event.data)));
self.addEventListener("notificationclick", (event) => event.waitUntil(clicked(event.notification, event.action)));
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(changed()));

/** Parley's own pages. Below a prefix, the host's other pages have the same origin: they see nothing, and hide nothing. */
const pages = async () => (await self.clients.matchAll({ type: "window", includeUncontrolled: true })).filter((page) => page.url.startsWith(base.href));

/** The message, if it is one of the server's. */
function read(data) {
  try {
    const m = data.json();
    return typeof m === "object" && m !== null && typeof m.title === "string" && typeof m.tag === "string" ? m : undefined;
  } catch {
    return undefined;
  }
}

async function pushed(data) {
  const m = data && read(data);
  if (!m) {
    // A browser shows a notification of its own if there is none.
    return self.registration.showNotification("Parley", { body: "There is news. Open the page to see it.", tag: "parley", data: {} });
  }
  for (const page of await pages()) page.postMessage({ type: "parley.news", session: m.session, interaction: m.interaction });
  if (m.close) {
    // Whoever subscribed to notifications must see one for each message: it takes the place of the
    // question, and goes at once.
    await self.registration.showNotification(m.title, { ...look(m), actions: [], silent: true, renotify: false, requireInteraction: false });
    for (const shown of await self.registration.getNotifications({ tag: m.tag })) shown.close();
    return;
  }
  const watching = (await pages()).some((page) => page.focused && page.visibilityState === "visible" && m.type !== "test");
  if (watching) return; // the page in front shows it
  await self.registration.showNotification(m.title, look(m));
}

function look(m) {
  return {
    body: m.body,
    tag: m.tag,
    icon: new URL("icon-192.png", base).href,
    badge: new URL("icon-192.png", base).href,
    renotify: m.type === "interaction.opened",
    requireInteraction: m.type === "interaction.opened",
    actions: actionsOf(m),
    data: { app: m.app, key: m.key, session: m.session, interaction: m.interaction, question: m.question, options: m.options },
  };
}

/** The answers that fit on a notification. Everything else is answered on the page. */
function actionsOf(m) {
  if (m.type !== "interaction.opened") return [];
  if (m.question && m.options?.length === 2) return m.options.map((title, i) => ({ action: `option:${i}`, title }));
  if (m.kind !== "permission" && m.kind !== "confirmation") return [];
  const offered = [
    { action: "allow", title: m.kind === "permission" ? "Allow once" : "Confirm" },
    { action: "deny", title: m.kind === "permission" ? "Deny" : "Cancel" },
  ];
  const may = offered.filter(({ action }) => m.choices?.includes(action));
  // What the notification does not show whole can only be allowed where it can be read.
  return may.some(({ action }) => action === "allow") ? may : [...may, { action: "open", title: "Open" }];
}

async function clicked(notification, action) {
  notification.close();
  const d = notification.data ?? {};
  if (action && action !== "open" && d.interaction && (await answer(d, action))) return;
  await open(d);
}

/** Answers the question. False: it has to be done on the page. */
async function answer(d, action) {
  const option = /^option:(\d)$/.exec(action);
  const body = option ? { choice: "answered", answers: { [d.question]: d.options[Number(option[1])] } } : { choice: action };
  let status;
  try {
    const response = await fetch(new URL(`v1/interactions/${encodeURIComponent(d.interaction)}/answer`, base), {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
    status = response.status;
  } catch {
    return false; // the page says that the server cannot be reached
  }
  if (status === 401 && (await byPage(d.interaction, body))) return true;
  if (status === 409 || status === 404) {
    await self.registration.showNotification("Parley", { body: "It was answered elsewhere before.", tag: `interaction-${d.interaction}`, data: { ...d, interaction: "" } });
    return true;
  }
  return status === 200;
}

/** Has an open page answer, which may have a key that this worker has not. */
async function byPage(interaction, body) {
  for (const page of await pages()) {
    const done = await new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      const late = setTimeout(() => resolve(false), 3000);
      port1.onmessage = (event) => {
        clearTimeout(late);
        resolve(event.data === true);
      };
      page.postMessage({ type: "parley.answer", interaction, body }, [port2]);
    });
    if (done) return true;
  }
  return false;
}

/** Shows the session on an open page of its app, or on a new one. */
async function open(d) {
  const at = d.app ? new URL(`apps/${encodeURIComponent(d.app)}/`, base) : base;
  const to = new URL(at);
  if (d.key) to.hash = `/${encodeURIComponent(d.key)}${d.interaction ? `/${encodeURIComponent(d.interaction)}` : ""}`;
  for (const page of await pages()) {
    const url = new URL(page.url);
    if (url.origin !== at.origin || url.pathname !== at.pathname) continue;
    page.postMessage({ type: "parley.open", hash: to.hash });
    return page.focus();
  }
  return self.clients.openWindow(to.href);
}

/** The push service gave up the subscription. Pages register the new one, with the key that they may have. */
async function changed() {
  for (const page of await pages()) page.postMessage({ type: "parley.subscribe" });
}
