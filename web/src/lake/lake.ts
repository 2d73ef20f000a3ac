// The lake on the page: which entities are listed, by words and by what their front matter says.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError, type Client } from "../api/client.ts";
import { Lakes, type EntityFilter, type EntityHit } from "../api/lakes.ts";
import type { Space } from "../api/workspaces.ts";
import { followLake, type LakeFollowing } from "./feed.ts";
import { Proposals } from "./proposals.ts";

/** What entities are told apart by. */
export const facets = ["kind", "status", "owner", "tag"] as const;
export type Facet = (typeof facets)[number];

/** A value of a facet, and how many of the lake's entities have it. */
export interface Choice {
  value: string;
  n: number;
}

export interface LakeState {
  words: string;
  filter: EntityFilter;
  /** "more": the next page is read. */
  state: "reading" | "read" | "more" | "failed";
  error: ApiError | undefined;
  entities: readonly EntityHit[];
  next: string;
  partial: boolean;
  /** Of the whole lake; undefined until they were read. */
  choices: Readonly<Record<Facet, readonly Choice[]>> | undefined;
  /** How many entities the lake has, once it was read. */
  size: number | undefined;
}

const blank: LakeState = { words: "", filter: {}, state: "reading", error: undefined, entities: [], next: "", partial: false, choices: undefined, size: undefined };

/** Pages of entities that are read for the choices: of a larger lake they are those of its first 20,000. */
const choicePages = 40;

export class Lake {
  readonly store: StoreApi<LakeState> = createStore<LakeState>(() => blank);
  readonly at: Lakes;
  readonly space: Space;
  readonly proposals: Proposals;
  #reading: AbortController | undefined;
  #choosing: AbortController | undefined;
  #listed = false;
  /** Something was changed while the list was read. */
  #stale = false;
  #rereading = false;

  constructor(client: Client, space: Space) {
    this.at = new Lakes(client);
    this.space = space;
    this.proposals = new Proposals(this.at, space);
  }

  get #state(): LakeState {
    return this.store.getState();
  }

  /** Reads everything anew. What is shown stays until then. */
  async refresh(): Promise<void> {
    this.#listed = true;
    await Promise.all([this.#find(), this.#choose()]);
  }

  /** Calls changed with the paths of what is changed from now on. What is listed follows. */
  follow(changed: (paths: readonly string[]) => void): LakeFollowing {
    return followLake(
      (cursor, signal) => this.at.changes(this.space, cursor, signal),
      (paths) => {
        changed(paths);
        void this.reread();
      },
    );
  }

  /** Reads again what is listed, as much as there is. It stays until then, and also if it cannot be read now. */
  async reread(): Promise<void> {
    const { state, words, filter, entities } = this.#state;
    if (!this.#listed) return;
    if (state === "reading" || state === "more") {
      this.#stale = true;
      return;
    }
    this.#reading?.abort();
    const { signal } = (this.#reading = new AbortController());
    const all: EntityHit[] = [];
    this.#rereading = true;
    try {
      let page;
      do {
        page = await this.at.find(this.space, words, filter, page?.next, signal);
        all.push(...page.entities);
      } while (page.next !== "" && all.length < entities.length);
      if (signal.aborted) return;
      this.store.setState({ state: "read", error: undefined, entities: all, next: page.next, partial: page.partial });
    } catch {
      if (signal.aborted) return;
    } finally {
      if (!signal.aborted) this.#rereading = false;
    }
    await Promise.all([this.#choose(), this.proposals.refresh()]);
  }

  search(words: string): void {
    if (words === this.#state.words) return;
    this.store.setState({ words });
    void this.#find();
  }

  /** Lists only entities with this value; "" any. */
  only(facet: Facet, value: string): void {
    const filter = { ...this.#state.filter, [facet]: value === "" ? undefined : value };
    this.store.setState({ filter });
    void this.#find();
  }

  /** Lists all entities with this value, and nothing narrows it further. */
  just(facet: Facet, value: string): void {
    this.store.setState({ words: "", filter: { [facet]: value } });
    void this.#find();
  }

  all(): void {
    this.store.setState({ words: "", filter: {} });
    void this.#find();
  }

  /** Reads the next page. */
  async more(): Promise<void> {
    const { next, state } = this.#state;
    if (next !== "" && (state === "read" || state === "failed")) await this.#find(next);
  }

  async #find(after = ""): Promise<void> {
    this.#reading?.abort();
    if (this.#rereading) this.#stale = true; // what it would have found is read after this
    this.#rereading = false;
    const reading = new AbortController();
    this.#reading = reading;
    const { words, filter, entities } = this.#state;
    this.store.setState({ state: after === "" ? "reading" : "more", error: undefined });
    try {
      const page = await this.at.find(this.space, words, filter, after, reading.signal);
      if (reading.signal.aborted) return;
      this.store.setState({ state: "read", entities: after === "" ? page.entities : [...entities, ...page.entities], next: page.next, partial: page.partial });
    } catch (cause) {
      // What was listed before is no answer to other words.
      if (!reading.signal.aborted) this.store.setState({ state: "failed", error: toApiError(cause), ...(after === "" && { entities: [], next: "", partial: false }) });
    }
    if (this.#stale && !reading.signal.aborted) {
      this.#stale = false;
      void this.reread();
    }
  }

  /** The choices are a convenience: without them the list is there all the same. */
  async #choose(): Promise<void> {
    this.#choosing?.abort();
    const { signal } = (this.#choosing = new AbortController());
    const all: EntityHit[] = [];
    try {
      let after = "";
      for (let i = 0; i < choicePages; i++) {
        const page = await this.at.find(this.space, "", {}, after, signal, 500);
        all.push(...page.entities);
        after = page.next;
        if (after === "") break;
      }
      if (!signal.aborted) this.store.setState({ choices: choicesOf(all), size: after === "" ? all.length : undefined });
    } catch {
      // The list says what is wrong.
    }
  }

  stop(): void {
    this.#listed = false;
    this.#stale = this.#rereading = false;
    this.#reading?.abort();
    this.#choosing?.abort();
    this.proposals.stop();
  }
}

/** The values of each facet, those that most entities have first. */
export function choicesOf(all: readonly Pick<EntityHit, "kind" | "status" | "owner" | "tags">[]): Record<Facet, readonly Choice[]> {
  const counted = (values: (e: (typeof all)[number]) => readonly (string | undefined)[]): Choice[] => {
    const n = new Map<string, number>();
    for (const e of all) for (const v of values(e)) if (v) n.set(v, (n.get(v) ?? 0) + 1);
    return [...n].map(([value, n]) => ({ value, n })).sort((a, b) => b.n - a.n || a.value.localeCompare(b.value));
  };
  return { kind: counted((e) => [e.kind]), status: counted((e) => [e.status]), owner: counted((e) => [e.owner]), tag: counted((e) => e.tags ?? []) };
}

/** Which facet a property of the front matter is; undefined: none. */
export function facetOf(property: string): Facet | undefined {
  const name = property.toLowerCase();
  return name === "tags" ? "tag" : facets.find((f) => f === name);
}

/** A snippet in parts, without the signs of Markdown; the words that were found are marked in it with ** on both sides. */
export function marked(snippet: string): { text: string; found: boolean }[] {
  const plain = snippet
    .replace(/\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]/g, "$1")
    .replace(/\[([^\[\]]*)\]\([^()]*\)/g, "$1")
    .replace(/\[\[[^\[\]|]*\||\[\[|\]\]|`|^#+ /gm, "");
  // A name that was replaced may have had one of the marks.
  const parts = plain.split("**");
  if (parts.length % 2 === 0) return [{ text: plain.replaceAll("**", ""), found: false }];
  return parts.map((text, i) => ({ text, found: i % 2 === 1 })).filter((p) => p.text !== "");
}
