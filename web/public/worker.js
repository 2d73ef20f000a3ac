// The worker of Parley's pages. It shows what the server sends by web push, and takes answers from
// the notifications. Without a connection it has a page that says so.
//
// It keeps only files of the build, which are the same for everybody: the page for when there is no connection with what that
// loads, and scripts, styles and fonts whose names change with their content. It does not touch any other request, so a
// page never sees an answer of the server that is old, and nothing of a user is kept.

/** A digest of the build. vite.config.ts puts it here, so that each build has another worker, which browsers take at once. */
const build = "development";

const base = new URL("./", self.location.href);
const kept = `parley ${base.pathname} `;
const cacheName = kept + build;

const noConnection = "offline.html";
/** What that page loads. */
const itsFiles = ["offline.css", "offline.js", "theme.js", "favicon.svg"];

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(prepare());
});
self.addEventListener("activate", (event) => event.waitUntil(begin()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== base.origin || !url.pathname.startsWith(base.pathname)) return;
  const path = url.pathname.slice(base.pathname.length).replace(/^apps\/[^/]+\//, ""); // each app's page loads the same files below itself
  if (request.mode === "navigate" ? isPage(url.pathname.slice(base.pathname.length)) : itsFiles.includes(path)) event.respondWith(orKept(event, request.mode === "navigate" ? noConnection : path));
  else if (/^assets\/[\w.-]+$/.test(path)) event.respondWith(asset(request, path));
});

/** Whether a browser that goes there is shown a page of Parley: not a download, nor the description of the API. */
const isPage = (path) => /^(?:apps\/[^/]+\/)?(?:(?:login|account)\.html)?$/.test(path);

/** The push part works without these files, so a failure here is none of the worker. */
async function prepare() {
  const cache = await caches.open(cacheName);
  await Promise.allSettled([noConnection, ...itsFiles].map((name) => cache.add(new Request(new URL(name, base), { cache: "reload" }))));
}

async function begin() {
  for (const name of await caches.keys()) if (name.startsWith(kept) && name !== cacheName) await caches.delete(name);
  await self.registration.navigationPreload?.enable(); // a page is asked for while this worker starts
  await self.clients.claim();
}

/** What the server sends; without a connection, a file that is kept. */
async function orKept(event, name) {
  try {
    return (await event.preloadResponse) ?? (await fetch(event.request));
  } catch (cause) {
    const page = await (await caches.open(cacheName)).match(new URL(name, base));
    if (!page) throw cause;
    return page;
  }
}

/** A file whose name changes with its content. */
async function asset(request, path) {
  const cache = await caches.open(cacheName);
  const at = new URL(path, base);
  const have = await cache.match(at);
  if (have) return have;
  const answer = await fetch(request);
  if (answer.ok && answer.type === "basic" && !answer.redirected) await cache.put(at, answer.clone()).catch(() => undefined); // the disk may be full
  return answer;
}

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
