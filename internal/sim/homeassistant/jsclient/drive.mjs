// Does with the real client what it is told, a JSON object a line on stdin, and
// answers each with a line {"ok": ...} or {"error": ...}.
import { createInterface } from "node:readline";
import * as ha from "home-assistant-js-websocket";
import WebSocket from "ws";

globalThis.WebSocket = WebSocket; // the client takes the browser's

let conn;
let entities = {};
const events = [];
const waiting = new Set();
let ready = 0;

// until resolves when check holds; every event looks again.
const until = (check) =>
  new Promise((resolve) => {
    const look = () => check() && (waiting.delete(look), resolve());
    waiting.add(look);
    look();
  });
const stir = () => [...waiting].forEach((look) => look());

const ops = {
  async connect({ url, token }) {
    conn = await ha.createConnection({ auth: ha.createLongLivedTokenAuth(url, token) });
    conn.addEventListener("ready", () => (ready++, stir()));
    return conn.haVersion;
  },
  user: async () => (await ha.getUser(conn)).name,
  config: async () => (await ha.getConfig(conn)).location_name,
  states: async () => (await ha.getStates(conn)).length,
  services: async () => Object.keys(await ha.getServices(conn)).sort(),
  ping: async () => (await conn.ping(), "pong"),
  send: ({ message }) => conn.sendMessagePromise(message),
  async watch() {
    ha.subscribeEntities(conn, (all) => ((entities = all), stir()));
    await until(() => Object.keys(entities).length > 0);
    return Object.keys(entities).length;
  },
  entity: async ({ id }) => entities[id] ?? null,
  // A state of null: until there is no such entity.
  async until({ id, state }) {
    await until(() => (entities[id]?.state ?? null) === state);
    return state;
  },
  async listen({ kind }) {
    await conn.subscribeEvents((ev) => (events.push(ev), stir()), kind);
    return true;
  },
  async heard({ n }) {
    await until(() => events.length >= n);
    return events.splice(0).map((e) => [e.event_type, e.data.entity_id ?? e.data.name ?? ""]);
  },
  call: ({ domain, service, data, target, returns }) => ha.callService(conn, domain, service, data, target, returns),
  async reconnected({ n }) {
    await until(() => ready >= n);
    return ready;
  },
  // The client of another project; the questions to it are added when it has booted.
  alchemy: async (args) => (await import("./alchemy.mjs")).boot(ops, args),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...args } = JSON.parse(line);
  let out;
  try {
    out = { ok: (await ops[op](args)) ?? null };
  } catch (e) {
    out = { error: e instanceof Error ? { message: e.message } : e };
  }
  process.stdout.write(JSON.stringify(out) + "\n");
}
process.exit(0);
