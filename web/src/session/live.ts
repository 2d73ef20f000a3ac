// Text in flight, on top of the transcript. It is not history: a reader that misses all of it
// ends in the same state.

import type { SessionWindow } from "../api/client.ts";
import type { Frame } from "../api/stream.ts";
import type { Delta, Event, Transcript, TurnView } from "../api/types.gen.ts";
import { isEnd, noRecords, record, type Records } from "./records.ts";
import { empty, marked, reduceAll } from "./reduce.ts";

/** What is known of a call that has not ended. */
export interface InFlight {
  turn: string;
  agent: string;
  /** The number of the source's fragments in text. */
  n: number;
  text: string;
}

export interface SessionView {
  /** The log was read after this number, except for the holes; 0 means from the beginning. */
  from: number;
  holes: readonly Hole[];
  transcript: Transcript;
  records: Records;
  /** Text in flight, by call: of a model call its answer so far, of a tool call what the tool reported last. */
  live: ReadonlyMap<string, InFlight>;
}

/** Events that are not read though later ones are: the first steps of turns that have many. */
export interface Hole {
  /** They come after this one, */
  after: number;
  /** up to this one. */
  to: number;
  /** How these turns began, and what they still ask: the only events among them that are known. */
  begun: readonly Event[];
}

export const nothing: SessionView = { from: 0, holes: [], transcript: empty, records: noRecords, live: new Map() };

/** Where a window begins, and its hole if it begins within a turn. */
function holeOf({ after, more, begun = [] }: Begins): { from: number; holes: Hole[] } {
  const first = begun[0];
  if (!first) return { from: after, holes: [] };
  // Before the first turn, only the first event says nothing that is shown.
  const from = more || first.seq > 2 ? first.seq - 1 : 0;
  return { from, holes: [{ after: from, to: after, begun }] };
}

type Begins = Pick<SessionWindow, "after" | "more" | "begun">;

/** The states before the first event of a window, from what is known of the turns that it begins in. */
function statesAt({ after, begun = [] }: Begins, t: Transcript, r: Records): { transcript: Transcript; records: Records } {
  return {
    transcript: { ...reduceAll({ ...t, seq: 0 }, begun), seq: after },
    records: { ...record({ ...r, seq: 0 }, begun), seq: after, cut: turnsOf(begun) },
  };
}

const turnsOf = (events: readonly Event[]): ReadonlySet<string> => new Set(events.flatMap((e) => e.turn ?? []));

/** The view before the first event of a window: the state left by the part of the log that is not read. */
export function beginAt(w: SessionWindow): SessionView {
  if (w.after === 0) return nothing;
  const { id, app, title, status, user } = w.session;
  const records = { ...noRecords, user, mode: w.mode || "default", model: w.session.model ?? "", runtime: w.session.runtime ?? "", workspace: w.session.workspace ?? "", readOnly: w.session.read_only ?? false, parent: w.session.parent ?? "", entities: w.session.attached_entities ?? [], maxOpenTurns: w.max_open_turns, pins: w.pins, rules: w.rules };
  return { ...holeOf(w), ...statesAt(w, { ...empty, session: id, app, title, status }, records), live: nothing.live };
}

/** Puts the older events of a window, up to the view's beginning, before a view. */
export function precede(view: SessionView, w: Begins, events: readonly Event[]): SessionView {
  const before = statesAt(w, empty, noRecords);
  const older = reduceAll(before.transcript, events);
  const records = record(before.records, events);
  // A turn queued among them ran later and is already known completely; it belongs where it was
  // asked.
  const have = new Map(view.transcript.turns?.map((t) => [t.id, t]));
  const turns = (older.turns ?? []).map((t) => have.get(t.id) ?? t);
  const placed = new Set(turns);
  turns.push(...(view.transcript.turns ?? []).filter((t) => !placed.has(t)));
  const { from, holes } = holeOf(w);
  const joined = new Map(records.events);
  for (const [turn, list] of view.records.events) joined.set(turn, [...(joined.get(turn) ?? []), ...list]);
  return {
    ...view,
    from,
    holes: [...holes, ...view.holes],
    transcript: { ...rewoundIn(view.transcript, turns, older.rewinds), ...(older.restored && { restored: older.restored }) },
    records: { ...view.records, forkedAt: view.records.forkedAt || records.forkedAt, moves: [...records.moves, ...view.records.moves], events: joined, asked: new Map([...records.asked, ...view.records.asked]), cut: new Set([...records.cut, ...view.records.cut]) },
  };
}

/** A transcript with these turns and older rewinds. Later rewinds have taken back some of the older turns, and brought back others. */
function rewoundIn(t: Transcript, turns: TurnView[], older: Transcript["rewinds"]): Transcript {
  const rewinds = [...(older ?? []), ...(t.rewinds ?? [])];
  const now = marked(turns, rewinds);
  return { ...t, turns: now.turns, ...(rewinds.length > 0 && { rewinds: now.rewinds }) };
}

/** Puts the last events of a hole, those after a number, into a view. */
export function fill(view: SessionView, hole: Hole, after: number, events: readonly Event[]): SessionView {
  const opened = new Set(events.flatMap((e) => (e.type === "interaction.opened" && e.data ? [e.data.id] : [])));
  const begun = after > hole.after ? hole.begun.filter((e) => e.seq <= after && !(e.type === "interaction.opened" && opened.has(e.data.id))) : [];
  const now = record({ ...noRecords }, [...begun, ...events]);
  const all = new Map(view.records.events);
  const asked = new Map(view.records.asked);
  const turns = [...(view.transcript.turns ?? [])];
  let at = 0; // behind the turn that was placed last
  for (const [turn, first] of now.events) {
    // The turn is folded again, from all that is known of it.
    const known = all.get(turn) ?? [];
    const list = [...known.filter((e) => e.seq <= hole.after), ...first, ...known.filter((e) => e.seq > hole.to)];
    all.set(turn, list);
    const [folded] = reduceAll(empty, list).turns ?? [];
    if (!folded) continue;
    const questions = record(noRecords, list).asked.get(turn);
    if (questions) asked.set(turn, questions);
    const have = turns.findIndex((t) => t.id === turn);
    if (have >= 0) turns[have] = folded;
    else turns.splice(at, 0, folded); // it was queued and cancelled during another one
    at = (have >= 0 ? have : at) + 1;
  }
  const holes = view.holes.flatMap((h) => (h !== hole ? [h] : after > hole.after ? [{ ...hole, to: after, begun }] : []));
  return {
    ...view,
    holes,
    transcript: rewoundIn(view.transcript, turns, undefined),
    records: { ...view.records, events: all, asked, cut: turnsOf(holes.flatMap((h) => h.begun)) },
  };
}

/** Applies frames to the view, in order. */
export function advance(view: SessionView, frames: readonly Frame[]): SessionView {
  let live: Map<string, InFlight> | undefined;
  const flight = () => (live ??= new Map(view.live));
  const events: Event[] = [];
  for (const f of frames) {
    switch (f.kind) {
      case "event":
        events.push(f.event);
        // The call's event overrides its fragments.
        if (f.event.type === "model.replied" || f.event.type === "model.failed") {
          if (f.event.data) flight().delete(f.event.data.call);
        } else if (f.event.type === "tool.ended") {
          if (f.event.data && (live ?? view.live).has(f.event.data.call)) flight().delete(f.event.data.call);
        } else if (isEnd(f.event)) {
          for (const [call, have] of flight()) if (have.turn === f.event.turn) flight().delete(call);
        }
        break;
      case "delta":
      case "partial":
        if (f.delta.kind === "thinking") break; // not shown
        if (f.delta.kind === "progress") progress(flight(), f.delta, f.kind === "partial");
        else add(flight(), f.delta, f.kind === "partial");
        break;
    }
  }
  const transcript = reduceAll(view.transcript, events);
  if (transcript === view.transcript && !live) return view;
  return { ...view, transcript, records: record(view.records, events), live: live ?? view.live };
}

/** Keeps the last line of what a tool reports. Each fragment is one report, and takes the place of the one before. */
function progress(live: Map<string, InFlight>, d: Delta, whole: boolean): void {
  const have = live.get(d.call);
  if (have && d.n <= have.n) return;
  if (whole && !d.text.includes("\n")) return; // all reports so far, and nothing separates them
  const text = d.text.trimEnd().split("\n").at(-1) ?? "";
  if (text !== "") live.set(d.call, { turn: d.turn ?? "", agent: d.agent ?? "", n: d.n, text });
}

function add(live: Map<string, InFlight>, d: Delta, whole: boolean): void {
  const have = live.get(d.call);
  if (!whole && have && d.n <= have.n) return; // already in the partial
  live.set(d.call, {
    turn: d.turn ?? "",
    agent: d.agent ?? "",
    n: d.n,
    text: whole ? d.text : (have?.text ?? "") + d.text,
  });
}
