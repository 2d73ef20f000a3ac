// The lake of a workspace: its entities, found by their words and their front matter, and the links among them.

import type { Client } from "./client.ts";
import type { Entity, EntityFault, EntityFaults, EntityGraph, EntityHit, EntityHits, EntityList } from "./types.gen.ts";
import type { Space } from "./workspaces.ts";

export type { Entity, EntityFault, EntityGraph, EntityHit };

/** Which entities are meant. */
export interface EntityFilter {
  kind?: string | undefined;
  owner?: string | undefined;
  status?: string | undefined;
  tag?: string | undefined;
  folder?: string | undefined;
}

export interface EntityPage {
  entities: readonly EntityHit[];
  next: string;
  /** No entity has all words; these have some. */
  partial: boolean;
}

export class Lakes {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async #get(space: Space, what: string, more: Readonly<Record<string, string | number | undefined>>, signal?: AbortSignal): Promise<unknown> {
    const q = new URLSearchParams({ app: space.app, workspace: space.name });
    for (const [name, value] of Object.entries(more)) if (value !== undefined && value !== "") q.set(name, String(value));
    return this.#client.request("GET", `v1/entities${what}?${q.toString()}`, { signal });
  }

  /** A page of entities: those that have the words, the best first, or without words all, by their paths. */
  async find(space: Space, words: string, filter: EntityFilter, after = "", signal?: AbortSignal, limit = 100): Promise<EntityPage> {
    if (words.trim() !== "") {
      const got = (await this.#get(space, "/search", { q: words.trim(), ...filter, after }, signal)) as EntityHits;
      return { entities: got.hits ?? [], next: got.next ?? "", partial: got.partial ?? false };
    }
    const got = (await this.#get(space, "", { ...filter, after, limit }, signal)) as EntityList;
    return { entities: (got.entities ?? []).map((e) => ({ ...e, score: 0 })), next: got.next ?? "", partial: false };
  }

  async tags(space: Space, signal?: AbortSignal): Promise<Record<string, number>> {
    return ((await this.#get(space, "/tags", {}, signal)) as { tags?: Record<string, number> | null }).tags ?? {};
  }

  async graph(space: Space, filter: EntityFilter, signal?: AbortSignal): Promise<EntityGraph> {
    return (await this.#get(space, "/graph", { ...filter }, signal)) as EntityGraph;
  }

  /** What is wrong in an entity, or on a page of all. */
  async faults(space: Space, path: string | undefined, after = "", signal?: AbortSignal): Promise<{ faults: readonly EntityFault[]; next: string }> {
    const got = (await this.#get(space, "/validate", { paths: path, after }, signal)) as EntityFaults;
    return { faults: got.faults ?? [], next: got.next ?? "" };
  }
}
