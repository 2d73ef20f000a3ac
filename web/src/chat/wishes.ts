// What sessions that the server does not have yet are to begin with.

import type { EntityRef, PermissionMode } from "../api/types.gen.ts";
import { noRecords, type Records } from "../session/records.ts";

export interface Wish {
  mode?: PermissionMode;
  model?: string;
  runtime?: string;
  entities?: readonly EntityRef[];
}

export class Wishes {
  readonly #by = new Map<string, Wish>();

  of(session: string): Wish {
    return this.#by.get(session) ?? {};
  }

  add(session: string, part: Wish): void {
    this.#by.set(session, { ...this.of(session), ...part });
  }

  /** The session has what was wished, or is gone. */
  settle(session: string): void {
    this.#by.delete(session);
  }

  /** The settings of a session that nothing was said in. */
  records(session: string, mode: PermissionMode | undefined): Records {
    const { mode: own = mode, model, runtime, entities } = this.of(session);
    return own || model || runtime || entities ? { ...noRecords, ...(own && { mode: own }), ...(model && { model }), ...(runtime && { runtime }), ...(entities && { entities }) } : noRecords;
  }

  /** The fields of the request that makes the session. */
  request(session: string): { mode?: PermissionMode; model?: string; runtime?: string; attached_entities?: EntityRef[] } {
    const { mode, model, runtime, entities } = this.of(session);
    return { ...(mode && { mode }), ...(model && { model }), ...(runtime && { runtime }), ...(entities?.length && { attached_entities: [...entities] }) };
  }
}
