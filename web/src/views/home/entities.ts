// The house: its entities by area, their states as they change, and their history over the last
// day. Failures are shown, and the request is repeated. While another tab holds the slot for the
// house's stream, the list is read again and again instead.

import { createStore, type StoreApi } from "zustand/vanilla";

import { ApiError, errorOf, toApiError, unreachable, type Client } from "../../api/client.ts";
import { SSEParser } from "../../api/sse.ts";
import { silence } from "../../api/stream.ts";
import { readHistory, type Chart } from "./chart.ts";

export interface Entity {
  entity_id: string;
  name: string;
  domain: string;
  device_class?: string;
  state: string;
  unit?: string;
  last_changed?: string;
  available: boolean;
}

export interface Area {
  id: string;
  name: string;
  entities: readonly string[];
}

export interface History {
  /** For numbers: ms since the epoch, and the value. */
  points: readonly (readonly [number, number])[];
  /** For others: ms since the epoch, and the state from then on. */
  states: readonly (readonly [number, string])[];
}

export interface House {
  phase: "loading" | "ready" | "failed";
  error: ApiError | undefined;
  /** Whether the server is receiving events from the house. */
  connected: boolean;
  /** The latest time at which the known states were current, by this page's clock. */
  freshAt: number;
  areas: readonly Area[];
  entities: ReadonlyMap<string, Entity>;
  histories: ReadonlyMap<string, History>;
}

export const noHouse: House = {
  phase: "loading",
  error: undefined,
  connected: false,
  freshAt: 0,
  areas: [],
  entities: new Map(),
  histories: new Map(),
};

/** The answer of GET …/entities. */
export interface Listing {
  connected: boolean;
  indexed_at?: string;
  age_ms?: number;
  areas: readonly { id: string; name: string; entities: readonly Entity[] | null }[] | null;
}

/** A frame of the stream: one entity's state, or how current all states are. */
export interface Change {
  entity_id?: string;
  state?: string;
  last_changed?: string;
  available?: boolean;
  connected?: boolean;
  age_ms?: number;
}

/** The house after reading the list. Known histories stay, and continue with the states that are new. */
export function listed(house: House, l: Listing, now: number): House {
  const entities = new Map<string, Entity>();
  const areas: Area[] = [];
  const histories = new Map(house.histories);
  for (const a of l.areas ?? []) {
    const own = a.entities ?? [];
    for (const e of own) {
      entities.set(e.entity_id, e);
      const past = histories.get(e.entity_id);
      const before = house.entities.get(e.entity_id);
      const moved = before && (before.state !== e.state || before.last_changed !== e.last_changed);
      if (past && moved) histories.set(e.entity_id, longer(past, e.state, Date.parse(e.last_changed ?? "") || now));
    }
    areas.push({ id: a.id, name: a.name, entities: own.map((e) => e.entity_id) });
  }
  return { ...house, phase: "ready", error: undefined, connected: l.connected, freshAt: now - (l.age_ms ?? 0), areas, entities, histories };
}

/** The house after changes; unchanged entities stay the same objects. */
export function changed(house: House, changes: readonly Change[], now: number): House {
  let { connected, freshAt } = house;
  let entities: Map<string, Entity> | undefined;
  let histories: Map<string, History> | undefined;
  for (const c of changes) {
    if (c.connected !== undefined) {
      connected = c.connected;
      freshAt = now - (c.age_ms ?? 0);
    }
    const have = c.entity_id === undefined ? undefined : (entities ?? house.entities).get(c.entity_id);
    if (!have || c.state === undefined) continue;
    entities ??= new Map(house.entities);
    entities.set(have.entity_id, {
      ...have,
      state: c.state,
      available: c.available ?? have.available,
      ...(c.last_changed && { last_changed: c.last_changed }),
    });
    const past = (histories ?? house.histories).get(have.entity_id);
    if (past) (histories ??= new Map(house.histories)).set(have.entity_id, longer(past, c.state, Date.parse(c.last_changed ?? "") || now));
  }
  return { ...house, connected, freshAt, entities: entities ?? house.entities, histories: histories ?? house.histories };
}

/** More points than this are not worth drawing. */
const mostPoints = 5000;

function longer(h: History, state: string, at: number): History {
  const number = Number(state);
  if (h.points.length > 0) {
    if (state.trim() === "" || Number.isNaN(number) || at < (h.points.at(-1)?.[0] ?? 0)) return h;
    return { ...h, points: [...h.points.slice(-mostPoints), [at, number]] };
  }
  if (at < (h.states.at(-1)?.[0] ?? 0)) return h;
  return { ...h, states: [...h.states.slice(-mostPoints), [at, state]] };
}

/** Entities whose name, id, area or class contains every word of the text. */
export function found(house: House, text: string): { area: Area; entities: Entity[] }[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return house.areas.flatMap((area) => {
    const entities = area.entities
      .map((id) => house.entities.get(id))
      .filter((e): e is Entity => e !== undefined)
      .filter((e) => {
        const all = `${e.name} ${e.entity_id} ${e.device_class ?? ""} ${area.name}`.toLowerCase();
        return words.every((w) => all.includes(w));
      });
    return entities.length > 0 ? [{ area, entities }] : [];
  });
}

const retryWaits = [2000, 5000, 15_000, 30_000];
/** Without a slot, the list is read this often. */
const pollEvery = 5000;
/** The number of histories requested at once. */
const atOnce = 3;

export class Entities {
  readonly store: StoreApi<House> = createStore<House>(() => noHouse);
  readonly #client: Client;
  readonly #base: string;
  readonly #now: () => number;
  #stop: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #queue: string[] = [];
  readonly #asked = new Set<string>();
  #asking = 0;

  constructor(client: Client, app = "home", now: () => number = Date.now) {
    this.#client = client;
    this.#base = `${client.base}apps/${encodeURIComponent(app)}/entities`;
    this.#now = now;
  }

  /** Reads the list and follows the changes until close, reconnecting when needed. */
  start(): void {
    if (this.#stop) return;
    this.#failures = 0;
    void this.#run();
  }

  /** Reads the list once, for its names, if nobody follows the house. */
  async peek(): Promise<void> {
    if (this.#stop || this.store.getState().phase !== "loading") return;
    try {
      const listing = (await (await this.#get(this.#base, new AbortController().signal)).json()) as Listing;
      if (!this.#stop) this.store.setState((h) => listed(h, listing, this.#now()), true);
    } catch {
      // Without names, ids are shown.
    }
  }

  retry(): void {
    this.close();
    this.start();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#stop?.abort("closed");
    this.#stop = undefined;
  }

  async #run(): Promise<void> {
    const stop = new AbortController();
    this.#stop = stop;
    try {
      const listing = (await (await this.#get(this.#base, stop.signal)).json()) as Listing;
      if (stop.signal.aborted) return;
      this.store.setState((h) => listed(h, listing, this.#now()), true);
      this.#failures = 0;
      if (!(await this.#follow(stop))) {
        if (this.#stop === stop) this.#timer = setTimeout(() => void this.#run(), pollEvery);
        return;
      }
    } catch (cause) {
      if (stop.signal.aborted) return;
      const error = cause instanceof SyntaxError ? new ApiError({ code: "internal", message: "The list of entities was not understood." }) : toApiError(cause);
      // The known states stay, marked as old.
      this.store.setState((h) => (h.phase === "ready" ? { connected: false, error } : { phase: "failed", error }));
    }
    if (this.#stop !== stop) return;
    const wait = retryWaits[Math.min(this.#failures++, retryWaits.length - 1)] ?? 30_000;
    this.#timer = setTimeout(() => void this.#run(), wait);
  }

  async #get(url: string, signal: AbortSignal, accept = "application/json"): Promise<Response> {
    let response: Response;
    try {
      response = await this.#client.fetch(url, { headers: { Accept: accept }, signal, cache: "no-store", credentials: "same-origin" });
    } catch (cause) {
      if (signal.aborted) throw cause;
      throw unreachable();
    }
    if (!response.ok) throw await errorOf(response);
    // A server without this route answers with the page.
    if (!(response.headers.get("Content-Type") ?? "").startsWith(accept)) {
      throw new ApiError({ code: "not_found", message: "This server has no entities to show.", status: 404 });
    }
    return response;
  }

  /** Follows the changes until the connection is cut. False: there is no slot for a stream, or it was lost. */
  async #follow(stop: AbortController): Promise<boolean> {
    const here = new AbortController();
    let lost = false;
    const release = this.#client.slots.take("house", () => {
      lost = true;
      here.abort("slot lost");
    });
    if (!release) return false;
    here.signal.addEventListener("abort", release);
    stop.signal.addEventListener("abort", () => here.abort("closed"));
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => here.abort("silence"), silence);
    };
    alive();
    try {
      const response = await this.#get(`${this.#base}/stream`, here.signal, "text/event-stream");
      if (!response.body) return true;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new SSEParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || stop.signal.aborted) return true;
        alive();
        const changes = parser.push(value).map((f) => JSON.parse(f.data) as Change);
        if (changes.length > 0) this.store.setState((h) => changed(h, changes, this.#now()), true);
      }
    } catch (cause) {
      if (lost) return false;
      throw cause;
    } finally {
      clearTimeout(quiet);
      here.abort("done");
    }
  }

  /** The history of an entity between two moments. */
  async past(id: string, from: number, to: number, signal: AbortSignal): Promise<Chart> {
    const window = `from=${encodeURIComponent(new Date(from).toISOString())}&to=${encodeURIComponent(new Date(to).toISOString())}`;
    const chart = readHistory(await (await this.#get(`${this.#base}/${encodeURIComponent(id)}/history?${window}`, signal)).json());
    if (!chart) throw new ApiError({ code: "internal", message: "The history of this entity was not understood." });
    return chart;
  }

  /** Requests the last day of an entity, once; others wait in a queue. */
  wantHistory(id: string): void {
    if (this.#asked.has(id)) return;
    this.#asked.add(id);
    this.#queue.push(id);
    this.#next();
  }

  #next(): void {
    while (this.#asking < atOnce && this.#queue.length > 0) {
      const id = this.#queue.shift() as string;
      this.#asking++;
      void this.#history(id).finally(() => {
        this.#asking--;
        this.#next();
      });
    }
  }

  async #history(id: string): Promise<void> {
    try {
      const response = await this.#get(`${this.#base}/${encodeURIComponent(id)}/history?hours=24`, new AbortController().signal);
      const body = (await response.json()) as Partial<Record<keyof History, unknown>>;
      const list = <T>(v: unknown) => (Array.isArray(v) ? (v as T[]) : []);
      const points = list<readonly [number, number | null]>(body.points).filter((p): p is readonly [number, number] => p[1] !== null);
      const history: History = { points, states: list(body.states) };
      this.store.setState((h) => ({ histories: new Map(h.histories).set(id, history) }));
    } catch {
      this.#asked.delete(id); // no history for now; it is requested again when the row is next seen
    }
  }
}
