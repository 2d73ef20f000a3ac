// The lake of a workspace: its entities, found by their words and their front matter, and the links among them.

import type { Client } from "./client.ts";
import type { Entity, EntityFault, EntityFaults, EntityGraph, EntityHit, EntityHits, EntityList, LakeFeed, Proposal, ProposalFinding } from "./types.gen.ts";
import type { Space } from "./workspaces.ts";

export type { Entity, EntityFault, EntityGraph, EntityHit, LakeFeed, Proposal, ProposalFinding };

/** Findings that one request decides about at most. */
const mostDecided = 200;

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
    return this.#client.request("GET", `v1/entities${what}?${of(space, more)}`, { signal });
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

  /** A page of the changes behind a cursor; of "now", no changes and the cursor to begin with. */
  async changes(space: Space, cursor: string, signal?: AbortSignal): Promise<LakeFeed> {
    return (await this.#get(space, "/changes", { cursor, limit: 500 }, signal)) as LakeFeed;
  }

  async graph(space: Space, filter: EntityFilter, signal?: AbortSignal): Promise<EntityGraph> {
    return (await this.#get(space, "/graph", { ...filter }, signal)) as EntityGraph;
  }

  /** What is wrong in an entity, or on a page of all. */
  async faults(space: Space, path: string | undefined, after = "", signal?: AbortSignal): Promise<{ faults: readonly EntityFault[]; next: string }> {
    const got = (await this.#get(space, "/validate", { paths: path, after }, signal)) as EntityFaults;
    return { faults: got.faults ?? [], next: got.next ?? "" };
  }

  /** The proposals for a lake, the newest first, without their findings. */
  async proposals(space: Space, after = "", signal?: AbortSignal): Promise<{ proposals: readonly Proposal[]; next: string }> {
    const got = (await this.#client.request("GET", `v1/proposals?${of(space, { after })}`, { signal })) as { proposals?: Proposal[] | null; next?: string };
    return { proposals: got.proposals ?? [], next: got.next ?? "" };
  }

  async proposal(space: Space, id: string, signal?: AbortSignal): Promise<Proposal> {
    return (await this.#client.request("GET", `v1/proposals/${encodeURIComponent(id)}?${of(space)}`, { signal })) as Proposal;
  }

  /** A finding with the whole of its difference. */
  async finding(space: Space, id: string, finding: string, signal?: AbortSignal): Promise<ProposalFinding | undefined> {
    const got = (await this.#client.request("GET", `v1/proposals/${encodeURIComponent(id)}?${of(space, { finding })}`, { signal })) as Proposal;
    return got.findings?.[0];
  }

  /**
   * Applies or rejects findings of the version of a proposal that was read; nothing is done if it is another now. It can be
   * repeated: nothing is done twice. Returns the proposal as it is then.
   */
  async decide(space: Space, id: string, what: "apply" | "reject", findings: readonly string[], version: string): Promise<Proposal> {
    let p: Proposal | undefined;
    for (let i = 0; i < findings.length; i += mostDecided) {
      p = (await this.#client.request("POST", `v1/proposals/${encodeURIComponent(id)}/${what}?${of(space)}`, { body: { findings: findings.slice(i, i + mostDecided), version } })) as Proposal;
    }
    return p ?? this.proposal(space, id);
  }
}

function of(space: Space, more: Readonly<Record<string, string | number | undefined>> = {}): string {
  const q = new URLSearchParams({ app: space.app, workspace: space.name });
  for (const [name, value] of Object.entries(more)) if (value !== undefined && value !== "") q.set(name, String(value));
  return q.toString();
}
