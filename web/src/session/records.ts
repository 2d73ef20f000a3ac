// What a page shows besides the transcript: interactions and their answers, the session's
// settings, and the events of each turn, from which its timeline and step log are drawn. Like
// the transcript it is a fold over the log.

import type { Answer, EntityRef, Event, Interaction, PermissionMode, Pin, Rule } from "../api/types.gen.ts";
import { hearing } from "./reduce.ts";

/** An interaction and its outcome. */
export interface Asked {
  interaction: Interaction;
  /** The number of the event that opened it. */
  seq: number;
  answer?: Answer;
  by?: string;
  client?: string;
  /** Why it was closed without an answer. */
  expired?: string;
  closedAt?: string;
}

export interface Move {
  seq: number;
  runtime: string;
}

export interface Records {
  seq: number;
  /** The session's user, as named in the log. */
  user: string;
  mode: PermissionMode;
  /** The model that the session names; "" means the app's. */
  model: string;
  /** The runtime that the session names; "" means the app's. */
  runtime: string;
  /** Where it got another runtime, the first first; "" is the app's. */
  moves: readonly Move[];
  /** The folder that it works in; "" if there is none. */
  workspace: string;
  /** Nothing in the folder is changed. */
  readOnly: boolean;
  /** The session that it is a copy of; "" if it is none. */
  parent: string;
  /** The number of the event after which it goes its own way; 0 if it is no copy, or if that was not read. */
  forkedAt: number;
  /** Files of the folder that every prompt shows. */
  entities: readonly EntityRef[];
  /** Limit of open turns, including the queue. */
  maxOpenTurns: number;
  pins: readonly Pin[];
  /** The rules granted in this session. */
  rules: readonly Rule[];
  /** Events by turn. */
  events: ReadonlyMap<string, readonly Event[]>;
  /** Turns of which the first steps are not read. */
  cut: ReadonlySet<string>;
  /** Interactions by turn, in the order in which they were opened; those about calls of one agent that wait at once, in the order of the calls. */
  asked: ReadonlyMap<string, readonly Asked[]>;
}

export const noRecords: Records = { seq: 0, user: "", mode: "default", model: "", runtime: "", moves: [], workspace: "", readOnly: false, parent: "", forkedAt: 0, entities: [], maxOpenTurns: 1, pins: [], rules: [], events: new Map(), asked: new Map(), cut: new Set() };

/** Folds events. Unaffected parts stay the same objects. */
export function record(state: Records, events: readonly Event[]): Records {
  let next: Records | undefined;
  const byTurn = new Map<string, Event[]>();
  const asked = new Map<string, Asked[]>();
  const of = (turn: string): Asked[] => {
    let list = asked.get(turn);
    if (!list) asked.set(turn, (list = [...(state.asked.get(turn) ?? [])]));
    return list;
  };
  for (const e of events) {
    if (e.seq <= (next ?? state).seq) continue;
    next ??= { ...state };
    next.seq = e.seq;
    if (e.turn) {
      const list = byTurn.get(e.turn);
      if (list) list.push(e);
      else byTurn.set(e.turn, [e]);
    }
    if ((e.v ?? 0) > 0 || e.data === null || e.data === undefined) continue; // of a newer version, or condensed
    switch (e.type) {
      case "session.created":
        next.user = e.data.user;
        next.mode = e.data.mode || "default";
        next.maxOpenTurns = e.data.max_open_turns || 1;
        next.model = e.data.model ?? "";
        next.runtime = e.data.runtime ?? "";
        next.workspace = e.data.workspace ?? "";
        next.readOnly = e.data.read_only ?? false;
        next.entities = e.data.attached_entities ?? [];
        break;
      case "session.updated":
        if (e.data.mode) next.mode = e.data.mode;
        if (e.data.rules) next.rules = e.data.rules;
        if (e.data.attached_entities !== undefined) next.entities = e.data.attached_entities ?? []; // null: nothing is attached any more
        if (e.data.model !== undefined && e.data.model !== null) next.model = e.data.model;
        if (e.data.runtime !== undefined && e.data.runtime !== null) {
          next.runtime = e.data.runtime;
          next.moves = [...next.moves, { seq: e.seq, runtime: e.data.runtime }];
        }
        break;
      case "session.forked":
        next.rules = [];
        next.parent = e.data.parent;
        next.forkedAt = e.seq;
        if (e.data.workspace) next.workspace = e.data.workspace;
        next.readOnly = e.data.workspace ? (e.data.read_only ?? false) : next.workspace !== "";
        break;
      case "memory.updated":
        if (e.data.pins) next.pins = e.data.pins;
        break;
      case "interaction.opened":
        if (e.turn) place(of(e.turn), { interaction: e.data, seq: e.seq });
        break;
      case "context.observed": {
        const { data } = e;
        if (e.turn && data.source === "client") of(e.turn).forEach((a, i, all) => (all[i] = { ...a, interaction: hearing(a.interaction, data) }));
        break;
      }
      case "interaction.answered": {
        const { id, answer, by, client } = e.data;
        if (e.turn) close(of(e.turn), id, { answer, ...(by && { by }), ...(client && { client }), closedAt: e.time });
        break;
      }
      case "interaction.expired":
        if (e.turn) close(of(e.turn), e.data.id, { expired: e.data.reason || "nobody answered in time", closedAt: e.time });
        break;
    }
    // When a turn ends, its open interactions close.
    if (e.turn && isEnd(e) && (asked.get(e.turn) ?? state.asked.get(e.turn))?.some(isWaiting)) {
      of(e.turn).forEach((a, i, all) => {
        if (isWaiting(a)) all[i] = { ...a, expired: "the turn ended", closedAt: e.time };
      });
    }
  }
  if (!next) return state;
  if (byTurn.size > 0) {
    const all = new Map(next.events);
    for (const [turn, list] of byTurn) all.set(turn, [...(all.get(turn) ?? []), ...list]);
    next.events = all;
  }
  if (asked.size > 0) next.asked = new Map([...next.asked, ...asked]);
  return next;
}

/**
 * Puts an interaction at the end. Calls that were asked for in one reply are made at once, so which of them asks first
 * is chance: an earlier call goes before a later one that still waits.
 */
function place(list: Asked[], a: Asked): void {
  let at = list.length;
  for (let before = list[at - 1]; before && isLater(before, a); before = list[at - 1]) at--;
  list.splice(at, 0, a);
}

/** Whether two interactions ask the same of two calls of one agent, and the call of the first, which waits, was asked for later. Ids of calls ascend. */
const isLater = (first: Asked, { interaction: i }: Asked): boolean =>
  isWaiting(first) && first.interaction.kind === i.kind && first.interaction.agent === i.agent && (first.interaction.call ?? "") > (i.call ?? "") && !!i.call;

/** Whether it still needs an answer. */
export const isWaiting = (a: Asked): boolean => a.answer === undefined && a.expired === undefined;

function close(list: Asked[], id: string, how: Partial<Asked>): void {
  const at = list.findIndex((a) => a.interaction.id === id);
  const open = list[at];
  if (open && isWaiting(open)) list[at] = { ...open, ...how };
}

export function isEnd(e: Event): boolean {
  return e.type === "turn.completed" || e.type === "turn.failed" || e.type === "turn.cancelled" || e.type === "turn.expired";
}
