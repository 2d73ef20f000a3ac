// Proposals for a lake: what an agent found, and what a person decides about each finding.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError } from "../api/client.ts";
import type { Lakes, Proposal, ProposalFinding } from "../api/lakes.ts";
import type { Space } from "../api/workspaces.ts";
import { count } from "../ui/text.ts";

export interface ProposalsState {
  /** The newest first, without their findings. */
  list: readonly Proposal[];
  /** For the page of older ones; "" there are none. */
  next: string;
  /** Which one is looked at; "" none. */
  id: string;
  /** It, with its findings, once it was read. */
  proposal: Proposal | undefined;
  /** Findings that are chosen to be applied. */
  chosen: ReadonlySet<string>;
  busy: boolean;
  error: ApiError | undefined;
  /** What the last decision did. */
  said: string;
}

const blank: ProposalsState = { list: [], next: "", id: "", proposal: undefined, chosen: new Set(), busy: false, error: undefined, said: "" };

/** Whether findings of it are not decided yet. */
export const waits = (p: Proposal): boolean => (p.counts["open"] ?? 0) > 0;

/** Whether it has a change that can be applied: one that is shown whole. Without one, a person mends the page by hand. */
export const appliable = (f: ProposalFinding): boolean => f.status === "open" && (f.diff ?? "") !== "" && f.diff_cut !== true;

export class Proposals {
  readonly store: StoreApi<ProposalsState> = createStore<ProposalsState>(() => blank);
  readonly #at: Lakes;
  readonly #space: Space;
  #listing: AbortController | undefined;
  #reading: AbortController | undefined;

  constructor(at: Lakes, space: Space) {
    this.#at = at;
    this.#space = space;
  }

  /** Reads which there are. They are an offer: what cannot be read is not shown. */
  async refresh(): Promise<void> {
    this.#listing?.abort();
    const { signal } = (this.#listing = new AbortController());
    try {
      const { proposals, next } = await this.#at.proposals(this.#space, "", signal);
      if (signal.aborted) return;
      // Older ones that were read stay, if they follow on this page.
      const { list, next: further } = this.store.getState();
      const last = list.findIndex((x) => x.id === proposals.at(-1)?.id);
      const older = next !== "" && last >= 0 ? list.slice(last + 1) : [];
      this.store.setState({ list: [...proposals, ...older], next: older.length > 0 ? further : next });
    } catch {
      // The list that is shown stays.
    }
  }

  /** Reads the next page of older ones. */
  async older(): Promise<void> {
    const { next, list } = this.store.getState();
    if (next === "") return;
    this.#listing?.abort();
    const { signal } = (this.#listing = new AbortController());
    this.store.setState({ error: undefined });
    try {
      const page = await this.#at.proposals(this.#space, next, signal);
      if (!signal.aborted) this.store.setState({ list: [...list, ...page.proposals], next: page.next });
    } catch (cause) {
      if (!signal.aborted) this.store.setState({ error: toApiError(cause) });
    }
  }

  /** Looks at one. */
  async open(id: string): Promise<void> {
    if (id !== this.store.getState().id) this.store.setState({ id, proposal: undefined, chosen: new Set(), said: "" });
    else this.store.setState({ said: "" });
    await this.reread();
  }

  async reread(): Promise<void> {
    this.#reading?.abort();
    const { signal } = (this.#reading = new AbortController());
    const { id } = this.store.getState();
    this.store.setState({ error: undefined });
    try {
      const p = await this.#at.proposal(this.#space, id, signal);
      if (!signal.aborted) this.#has(p);
    } catch (cause) {
      if (!signal.aborted) this.store.setState({ error: toApiError(cause) });
    }
  }

  /** Reads the whole of a difference of which only the beginning is shown. */
  async whole(finding: string): Promise<void> {
    const { proposal: before, id } = this.store.getState();
    this.store.setState({ error: undefined });
    try {
      const f = await this.#at.finding(this.#space, id, finding);
      const { proposal: p } = this.store.getState();
      if (!f || !p || p !== before) return; // it was read again meanwhile
      this.store.setState({ proposal: { ...p, findings: (p.findings ?? []).map((x) => (x.id === finding ? f : x)) } });
    } catch (cause) {
      this.store.setState({ error: toApiError(cause) });
    }
  }

  choose(finding: string, yes: boolean): void {
    const chosen = new Set(this.store.getState().chosen);
    if (yes) chosen.add(finding);
    else chosen.delete(finding);
    this.store.setState({ chosen });
  }

  /** Applies findings, or leaves the pages as they are. Returns the files that were changed. */
  async decide(what: "apply" | "reject", ids: readonly string[]): Promise<string[]> {
    const { proposal: before, busy } = this.store.getState();
    if (!before || busy || ids.length === 0) return [];
    this.#reading?.abort(); // what it reads is older than what is decided now
    this.store.setState({ busy: true, error: undefined, said: "" });
    try {
      const p = await this.#at.decide(this.#space, before.id, what, ids, before.version);
      if (this.store.getState().id !== before.id) return [];
      this.#has(p);
      this.store.setState({ said: saidOf(what, before, p, ids) });
      const applied = (p.findings ?? []).filter((f) => ids.includes(f.id) && f.status === "applied");
      return [...new Set(applied.flatMap((f) => [f.path, ...pathsOf(f.diff ?? "")]))];
    } catch (cause) {
      const error = toApiError(cause);
      await this.reread(); // some of it may be done, or others have decided
      this.store.setState({ error });
      return [];
    } finally {
      this.store.setState({ busy: false });
    }
  }

  #has(p: Proposal): void {
    const can = new Set((p.findings ?? []).filter(appliable).map((f) => f.id));
    const { list, chosen } = this.store.getState();
    this.store.setState({
      proposal: p,
      chosen: new Set([...chosen].filter((id) => can.has(id))),
      list: list.map((x) => (x.id === p.id ? { ...x, counts: p.counts } : x)),
    });
  }

  stop(): void {
    this.#listing?.abort();
    this.#reading?.abort();
  }
}

/** The files that a unified diff changes. */
function pathsOf(diff: string): string[] {
  return [...diff.matchAll(/^(?:---|\+\+\+) [ab]\/(.+)$/gm)].map((m) => m[1] ?? "");
}

/** What became of the findings that somebody decided about, as sentences. */
export function saidOf(what: "apply" | "reject", before: Proposal, after: Proposal, ids: readonly string[]): string {
  const was = new Map((before.findings ?? []).map((f) => [f.id, f.status]));
  const now = (after.findings ?? []).filter((f) => ids.includes(f.id));
  const n = (status: string, fresh = true): number => now.filter((f) => f.status === status && (!fresh || was.get(f.id) !== status)).length;
  const [done, stale] = [n(what === "apply" ? "applied" : "rejected"), n("stale", false)];
  const said: string[] = [];
  if (done > 0) said.push(what === "apply" ? `${count(done)} ${done === 1 ? "is" : "are"} applied, each as a commit in your name.` : `${count(done)} ${done === 1 ? "stays" : "stay"} as ${done === 1 ? "it is" : "they are"}, and will not be proposed again.`);
  if (stale > 0) said.push(`${count(stale)} could not be applied, because ${stale === 1 ? "its page was" : "their pages were"} changed since.`);
  const open = n("open", false);
  if (open > 0) said.push(`${count(open)} ${open === 1 ? "is" : "are"} still open.`);
  return said.length > 0 ? said.join(" ") : "Others have decided about that already.";
}

/** Kinds of findings, in the order in which they are shown. */
export const kinds: Readonly<Record<string, string>> = {
  "broken-link": "Broken links",
  "front-matter": "Front matter",
  duplicate: "Duplicates",
  orphan: "Pages that nothing links to",
  stale: "Pages that nobody has looked at for long",
  contradiction: "Contradictions",
};

/** The findings by kind; kinds that the page does not know come last, by their names. */
export function byKind(findings: readonly ProposalFinding[]): { kind: string; name: string; findings: readonly ProposalFinding[] }[] {
  const known = Object.keys(kinds);
  const rank = (kind: string): number => (known.includes(kind) ? known.indexOf(kind) : known.length);
  const all = [...new Set(findings.map((f) => f.kind))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  return all.map((kind) => ({ kind, name: kinds[kind] ?? kind, findings: findings.filter((f) => f.kind === kind) }));
}
