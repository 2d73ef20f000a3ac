// The page of the CRM: tables, a record's detail, and the sidecar of Parley beside them.

const app = document.querySelector("#app");
const kept = {
  get: (k) => { try { return localStorage.getItem("crm." + k); } catch { return null; } },
  set: (k, v) => { try { v == null ? localStorage.removeItem("crm." + k) : localStorage.setItem("crm." + k, v); } catch { /* private */ } },
};

// el makes an element; what is text stays text.
function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value != null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children.flat(3).filter((c) => c != null && c !== false));
  return e;
}

const icons = {
  leads: "M16 19v-1a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4v1M9.5 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6m7-5.6a3 3 0 0 1 0 5.2M21 19v-1a4 4 0 0 0-3-3.9",
  companies: "M4 20V5a1 1 0 0 1 1-1h8a1 1 0 0 1 1 1v15m0-10h5a1 1 0 0 1 1 1v9M2 20h20M8 8h2m-2 4h2m-2 4h2",
  projects: "M4 21V4m0 1h13l-2.5 4L17 13H4",
  notes: "M6 3h9l4 4v13a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1m3 8h6m-6 4h6",
  theme: "M12 3v2m0 14v2m9-9h-2M5 12H3m15.4-6.4L17 7M7 17l-1.4 1.4M18.4 18.4 17 17M7 7 5.6 5.6M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8",
  leave: "M14 4h5a1 1 0 0 1 1 1v14a1 1 0 0 1-1 1h-5m-4-4 4-4-4-4m4 4H3",
};
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [k, v] of Object.entries({ viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" })) svg.setAttribute(k, v);
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}
function brand(name) {
  const e = el("div", { class: "brand" });
  e.innerHTML = '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#0f766e"/><path d="M9 21V11m7 10V7m7 14v-7" stroke="#fff" stroke-width="3.4" stroke-linecap="round"/></svg>';
  e.append(name);
  return e;
}
function face(name) {
  const parts = String(name ?? "?").split(/\s+/);
  const hue = [...String(name)].reduce((n, c) => (n * 31 + c.charCodeAt(0)) % 360, 7);
  const e = el("span", { class: "face", "aria-hidden": "true" }, (parts[0][0] + (parts.length > 1 ? parts.at(-1)[0] : "")).toUpperCase());
  e.style.setProperty("--hue", `hsl(${hue} 60% 50%)`);
  return e;
}

let toasting;
function toast(text) {
  const t = document.querySelector("#toast");
  t.textContent = text;
  t.classList.add("on");
  clearTimeout(toasting);
  toasting = setTimeout(() => t.classList.remove("on"), 3500);
}

// --- the session

const session = { token: kept.get("token"), user: null, org: kept.get("org") };
let demo = { users: [], parley: false };

const sidecar = (f) => (window.ParleySidecar ??= []).push(f);
sidecar((s) => {
  s.configure({ getToken: () => session.token });
  const aside = () => document.documentElement.toggleAttribute("data-panel", s.isOpen);
  s.on("open", aside);
  s.on("close", aside);
  aside(); // after a reload it may be open already
  s.on("write", (w) => {
    const id = /\/api\/\w+\/([\w-]+)/.exec(w.path)?.[1];
    if (w.state !== "open" && w.state !== "sent") refresh(id, w.method === "POST");
  });
});

async function api(path, options = {}) {
  const headers = { ...options.headers };
  if (session.token) headers.Authorization = "Bearer " + session.token;
  if (session.org) headers["X-Org-Id"] = session.org;
  if (options.body) headers["Content-Type"] = "application/json";
  const answer = await fetch("/api" + path, { ...options, headers, body: options.body && JSON.stringify(options.body) });
  const body = answer.status === 204 ? null : await answer.json().catch(() => null);
  if (answer.ok) return body;
  if (answer.status === 401 && session.token) leave();
  const detail = body?.detail;
  throw new Error(typeof detail === "string" ? detail : detail?.map((d) => `${d.loc.at(-1)}: ${d.msg}`).join(" ") ?? `The CRM answered ${answer.status}.`);
}

async function enter(email) {
  const { token, user } = await api("/login", { method: "POST", body: { email, password: "demo" } });
  session.token = token;
  kept.set("token", token);
  arrive(user);
}

function arrive(user) {
  session.user = user;
  if (!user.orgs.some((o) => o.id === session.org)) session.org = user.orgs[0].id;
  kept.set("org", session.org);
  sidecar((s) => { s.configure({ user: user.id, org: session.org, launcher: true }); s.setToken(session.token); });
  frame();
  go();
}

function leave() {
  session.token = session.user = null;
  kept.set("token", null);
  sidecar((s) => { s.setToken(null); s.close(); s.configure({ launcher: false }); });
  login();
}

function login() {
  document.title = "Log in · CRM";
  app.replaceChildren(el("div", { class: "login" }, brand("CRM"), el("div", {}, el("h1", {}, "Who are you today?"), el("p", { class: "muted" }, "This is a demo with made-up people. Nobody needs a password.")),
    el("div", { class: "people" }, demo.users.map((u) => el("button", { class: "person", onclick: () => enter(u.email).catch((e) => toast(e.message)) },
      face(u.name), el("div", {}, el("b", {}, u.name), el("span", {}, u.title)), el("span", { class: "orgs" }, u.orgs.length > 1 ? `${u.orgs.length} organisations` : ""))))));
}

// --- what there is to see

const euro = new Intl.NumberFormat("en", { style: "currency", currency: "EUR", maximumFractionDigits: 0 });
const state = (v) => (v ? el("span", { class: "state", "data-state": v }, v) : "");
const number = (v) => (v == null ? "" : new Intl.NumberFormat("en").format(v));
const date = (v) => (v ? new Date(v).toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" }) : "");
const person = (r, below) => el("div", { class: "who" }, face(r.name), el("div", {}, r.name, below && el("small", {}, below)));
function meter(v) {
  const i = el("i");
  i.style.setProperty("--n", `${v}%`);
  return el("span", { class: "meter" }, i, el("span", {}, v));
}

const views = {
  leads: {
    title: "Leads", one: "lead", filter: ["status", ["new", "contacted", "qualified", "proposal", "won", "lost"]],
    columns: [
      ["Name", "name", (r) => person(r, [r.title, r.company].filter(Boolean).join(", ")), "name"],
      ["Status", "status", (r) => state(r.status)],
      ["Score", "score", (r) => meter(r.score), "number", "no"],
      ["Value", "value", (r) => euro.format(r.value), "number"],
      ["City", "city", (r) => r.city ?? "", "", "no"],
      ["Owner", null, (r) => r.owner ?? el("span", { class: "muted" }, "nobody"), "", "no"],
      ["Last contact", "last_contact_on", (r) => date(r.last_contact_on), "", "no"],
    ],
    sort: "-created_at",
  },
  companies: {
    title: "Companies", one: "company", filter: ["plan", ["none", "free", "trial", "team", "enterprise"]],
    columns: [
      ["Name", "name", (r) => person(r, r.domain), "name"],
      ["Plan", "plan", (r) => state(r.plan)],
      ["Active users", "active_users", (r) => number(r.active_users), "number", "no"],
      ["Industry", "industry", (r) => r.industry ?? "", "", "no"],
      ["People", null, (r) => r.size ?? "", "", "no"],
      ["City", "city", (r) => [r.city, r.country].filter(Boolean).join(", ")],
    ],
    sort: "name",
  },
  projects: {
    title: "Projects", one: "project", filter: ["status", ["planned", "active", "paused", "done"]],
    columns: [
      ["Name", "name", (r) => el("div", {}, r.name, el("small", {}, r.description ?? "")), "name"],
      ["Status", "status", (r) => state(r.status)],
      ["Region", null, (r) => r.region ?? "", "", "no"],
      ["Owner", null, (r) => r.owner ?? "", "", "no"],
      ["Target", "target", (r) => number(r.target), "number", "no"],
      ["Due", "due_on", (r) => date(r.due_on)],
    ],
    sort: "due_on",
  },
  notes: {
    title: "Notes", one: "note", filter: ["pinned", ["true"]],
    columns: [
      ["Note", null, (r) => el("span", { class: "clip" }, r.text), "text"],
      ["About", null, (r) => r.lead ?? r.company ?? r.project ?? ""],
      ["Author", null, (r) => r.author ?? "", "", "no"],
      ["Written", "created_at", (r) => date(r.created_at)],
    ],
    sort: "-created_at",
  },
};

function theme(next) {
  if (next) kept.set("theme", next);
  const now = kept.get("theme");
  if (now) document.documentElement.dataset.theme = now;
  sidecar((s) => s.configure({ theme: now ?? "auto" }));
}
const isDark = () => (kept.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function frame() {
  const { user } = session;
  app.replaceChildren(el("div", { class: "frame" },
    el("div", { class: "side" }, brand(user.orgs.find((o) => o.id === session.org).name),
      el("nav", { "aria-label": "Records" }, Object.entries(views).map(([name, v]) => el("a", { href: "#/" + name, "data-view": name }, icon(name), v.title, el("span", { class: "count" })))),
      el("div", { class: "foot" },
        user.orgs.length > 1 && el("label", { class: "org" }, el("span", {}, "Organisation"),
          el("select", { class: "field", "aria-label": "Organisation", onchange: (e) => { session.org = e.target.value; kept.set("org", session.org); sidecar((s) => s.setOrg(session.org)); location.hash = "#/leads"; frame(); go(); } },
            user.orgs.map((o) => el("option", { value: o.id, selected: o.id === session.org }, o.name)))),
        el("div", { class: "me" }, el("div", {}, el("b", {}, user.name), el("small", {}, user.orgs.find((o) => o.id === session.org).role)),
          el("button", { class: "icon", "aria-label": "Light or dark", title: "Light or dark", onclick: () => theme(isDark() ? "light" : "dark") }, icon("theme")),
          el("button", { class: "icon", "aria-label": "Log out", title: "Log out", onclick: () => api("/logout", { method: "POST" }).catch(() => 0).finally(leave) }, icon("leave"))))),
    el("main", { id: "main", tabindex: "-1" })));
  count();
}

async function count() {
  const totals = await Promise.all(Object.keys(views).map((name) => api(`/${name}?page_size=1&fields=id`).then((a) => a.total, () => "")));
  Object.keys(views).forEach((name, i) => { const e = document.querySelector(`[data-view="${name}"] .count`); if (e) e.textContent = totals[i]; });
}

// --- lists and details

let now = {}; // what is shown: name, id, page, q, filter, sort
let turn = 0;

function go() {
  if (!session.user) return;
  const [, name = "leads", id] = location.hash.split("/");
  const view = views[name] ? name : "leads";
  if (now.name !== view || now.id !== id) now = { name: view, id, page: 1, q: "", filter: "", sort: views[view].sort };
  for (const a of document.querySelectorAll(".side nav a")) a.toggleAttribute("aria-current", a.dataset.view === view);
  (id ? detail() : list()).catch((e) => toast(e.message));
}
addEventListener("hashchange", () => { go(); document.querySelector("#main")?.focus({ preventScroll: true }); scrollTo(0, 0); });

// refresh shows what a write has changed.
async function refresh(id, isNew) {
  if (!session.user) return;
  count();
  if (now.id) return detail().catch((e) => toast(e.message));
  const before = new Set([...document.querySelectorAll("tbody tr")].map((r) => r.dataset.id));
  await list().catch((e) => toast(e.message));
  for (const row of document.querySelectorAll("tbody tr")) {
    if (row.dataset.id === id || (isNew && !before.has(row.dataset.id))) row.classList.add("flash");
  }
}

async function list() {
  const view = views[now.name];
  const mine = ++turn;
  const query = new URLSearchParams({ page: now.page, page_size: 20, sort: now.sort });
  if (now.q) query.set("q", now.q);
  if (now.filter) query.set(view.filter[0], now.filter);
  const main = document.querySelector("#main");
  main.querySelector(".table")?.classList.add("loading");
  const answer = await api(`/${now.name}?${query}`);
  if (mine !== turn) return;
  document.title = `${view.title} · CRM`;
  sidecar((s) => s.setContext(null));
  if (main.dataset.shows !== now.name) {
    const search = el("input", { class: "field", type: "search", placeholder: `Search ${now.name}`, "aria-label": `Search ${now.name}`, oninput: (e) => { now.q = e.target.value; now.page = 1; clearTimeout(search.waiting); search.waiting = setTimeout(() => list().catch((x) => toast(x.message)), 200); } });
    main.replaceChildren(el("div", { class: "head" }, el("h1", {}, view.title), el("span", { class: "muted", id: "total", role: "status" })),
      el("div", { class: "tools" }, search, el("div", { class: "chips" }, view.filter[1].map((v) => el("button", { class: "chip", "data-filter": v, "aria-pressed": "false",
        onclick: () => { now.filter = now.filter === v ? "" : v; now.page = 1; list().catch((e) => toast(e.message)); } }, v === "true" ? view.filter[0] : v)))),
      el("div", { id: "rows" }));
    main.dataset.shows = now.name;
  }
  for (const c of main.querySelectorAll(".chip")) c.setAttribute("aria-pressed", String(c.dataset.filter === now.filter));
  main.querySelector("#total").textContent = `${answer.total} ${now.q || now.filter ? "found" : "in all"}`;
  const order = (field) => (now.sort === field ? "ascending" : now.sort === "-" + field ? "descending" : null);
  main.querySelector("#rows").replaceChildren(
    answer.items.length === 0 ? el("div", { class: "table" }, el("p", { class: "empty" }, "Nothing fits.")) : el("div", { class: "table" }, el("table", {},
      el("thead", {}, el("tr", {}, view.columns.map(([title, field, , kind, small]) => el("th", { "data-small": small, class: kind === "number" ? "number" : "", "aria-sort": field && order(field), scope: "col" },
        field ? el("button", { onclick: () => { now.sort = now.sort === field ? "-" + field : field; now.page = 1; list().catch((e) => toast(e.message)); } }, title, { ascending: "↑", descending: "↓" }[order(field)] ?? "") : el("span", {}, title))))),
      el("tbody", {}, answer.items.map((r) => {
        const open = () => { location.hash = now.name === "notes" ? about(r) : `#/${now.name}/${r.id}`; };
        return el("tr", { "data-id": r.id, tabindex: "0", onclick: open, onkeydown: (e) => e.key === "Enter" && open() },
          view.columns.map(([, , show, kind, small]) => el("td", { class: kind, "data-small": small }, show(r))));
      })))),
    answer.pages > 1 ? el("div", { class: "pages" }, `${now.page} of ${answer.pages}`,
      el("button", { class: "button", disabled: now.page <= 1, onclick: () => { now.page--; list(); } }, "Back"),
      el("button", { class: "button", disabled: now.page >= answer.pages, onclick: () => { now.page++; list(); } }, "Next")) : "");
}

const about = (note) => (note.lead_id ? `#/leads/${note.lead_id}` : note.company_id ? `#/companies/${note.company_id}` : `#/projects/${note.project_id}`);

const labels = { company_id: null, project_id: null, owner_id: null, name: null, id: null, title: null, description: null };
function value(r, name) {
  const v = r[name];
  if (v == null || v === "") return el("span", { class: "muted" }, "–");
  if (name === "status" || name === "plan") return state(v);
  if (name === "value") return euro.format(v);
  if (name === "score") return meter(v);
  if (/_(at|on)$/.test(name)) return date(v);
  if (name === "company" && r.company_id) return el("a", { href: "#/companies/" + r.company_id }, v);
  if (name === "project" && r.project_id) return el("a", { href: "#/projects/" + r.project_id }, v);
  if (name === "email") return el("a", { href: "mailto:" + v }, v);
  return typeof v === "boolean" ? (v ? "yes" : "no") : String(v);
}

async function detail() {
  const { name, id } = now;
  const view = views[name];
  const mine = ++turn;
  const main = document.querySelector("#main");
  const [r, notes] = await Promise.all([api(`/${name}/${id}`), api(`/notes?${view.one}_id=${encodeURIComponent(id)}&page_size=50`)]).catch((e) => {
    main.dataset.shows = "";
    main.replaceChildren(el("a", { class: "back", href: "#/" + name }, "← " + view.title), el("p", { class: "empty" }, e.message));
    throw e;
  });
  if (mine !== turn) return;
  main.dataset.shows = "";
  document.title = `${r.name} · CRM`;
  sidecar((s) => s.setContext({ label: `${view.one[0].toUpperCase()}${view.one.slice(1)}: ${r.name}`, data: { kind: view.one, id: r.id, name: r.name } }));
  const may = session.user.orgs.find((o) => o.id === session.org).role !== "viewer";
  const change = (body) => api(`/${name}/${id}`, { method: "PUT", body }).then(() => { toast("Saved."); refresh(); }, (e) => { toast(e.message); refresh(); });
  const text = el("textarea", { class: "field", placeholder: "What was said?", "aria-label": "New note", required: true, maxlength: 4000 });
  main.replaceChildren(
    el("a", { class: "back", href: "#/" + name }, "← " + view.title),
    el("div", { class: "title" }, face(r.name), el("div", {}, el("h1", {}, r.name), el("p", { class: "muted" }, name === "leads" ? [r.title, r.company].filter(Boolean).join(" at ") : r.description ?? ""))),
    el("div", { class: "detail" },
      el("section", { class: "box" }, el("h2", {}, "Details"),
        el("dl", {}, Object.keys(r).filter((k) => !(k in labels)).map((k) => [el("dt", {}, k.replaceAll("_", " ").replace(/ (on|at)$/, "")),
          el("dd", {}, k === "status" && may ? el("select", { class: "field", "aria-label": "Status", onchange: (e) => change({ status: e.target.value }) }, view.filter[1].map((v) => el("option", { selected: v === r.status }, v))) : value(r, k))]))),
      el("section", { class: "box" }, el("h2", {}, `Notes (${notes.total})`),
        may && el("form", { class: "add", onsubmit: (e) => { e.preventDefault(); api("/notes", { method: "POST", body: { text: text.value, [view.one + "_id"]: id } }).then(() => refresh(), (x) => toast(x.message)); } }, text, el("button", { class: "button" }, "Add note")),
        notes.items.map((n) => el("div", { class: "note", "data-id": n.id }, el("p", {}, n.text), el("small", {}, `${n.author ?? "Somebody"}, ${date(n.created_at)}`))))));
}

// --- the beginning

theme();
demo = await (await fetch("/demo.json")).json();
if (demo.parley) {
  document.head.append(el("script", { src: "/sidecar.js", "data-api-url": "/", "data-ws-url": "/ws/codex", "data-title": "CRM assistant", "data-launcher": session.token ? null : "none",
    "data-suggestions": "How many leads do we have, by status?|Which qualified leads are worth most?|Who has no owner yet?" }));
}
if (session.token) {
  await api("/me").then(arrive, () => session.token && login());
} else login();
addEventListener("focus", () => session.user && !now.q && refresh());
