// Text in flight, on top of the transcript. It is not history: a reader that misses all of it
// ends in the same state.

import type { SessionWindow } from "../api/client.ts";
import type { Frame } from "../api/stream.ts";
import type { Delta, Event, Transcript } from "../api/types.gen.ts";
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
  /** The log was read after this number; 0 means from the beginning. */
  from: number;
  transcript: Transcript;
  records: Records;
  /** Text in flight, by call: of a model call its answer so far, of a tool call what the tool reported last. */
  live: ReadonlyMap<string, InFlight>;
}

export const nothing: SessionView = { from: 0, transcript: empty, records: noRecords, live: new Map() };

/** The view before the first event of a window: the state left by the part of the log that is not read. */
export function beginAt(w: SessionWindow): SessionView {
  if (w.after === 0) return nothing;
  const { id, app, title, status, user } = w.session;
  return {
    from: w.after,
    transcript: { ...empty, session: id, app, title, status, seq: w.after },
    records: { ...noRecords, seq: w.after, user, mode: w.mode || "default", model: w.session.model ?? "", runtime: w.session.runtime ?? "", workspace: w.session.workspace ?? "", entities: w.session.attached_entities ?? [], maxOpenTurns: w.max_open_turns, pins: w.pins, rules: w.rules },
    live: nothing.live,
  };
}

/** Puts older events (those after a number, up to the view's beginning) before a view. */
export function precede(view: SessionView, after: number, events: readonly Event[]): SessionView {
  const older = reduceAll({ ...empty, seq: after }, events);
  const records = record({ ...noRecords, seq: after }, events);
  // A turn queued among them ran later and is already known completely; it belongs where it was
  // asked.
  const have = new Map(view.transcript.turns?.map((t) => [t.id, t]));
  const turns = (older.turns ?? []).map((t) => have.get(t.id) ?? t);
  const placed = new Set(turns);
  turns.push(...(view.transcript.turns ?? []).filter((t) => !placed.has(t)));
  // Later rewinds have taken back turns among the older ones, and brought back others.
  const rewinds = [...(older.rewinds ?? []), ...(view.transcript.rewinds ?? [])];
  const now = marked(turns, rewinds);
  const joined = new Map(records.events);
  for (const [turn, list] of view.records.events) joined.set(turn, [...(joined.get(turn) ?? []), ...list]);
  return {
    ...view,
    from: after,
    transcript: { ...view.transcript, turns: now.turns, ...(rewinds.length > 0 && { rewinds: now.rewinds }) },
    records: { ...view.records, events: joined, asked: new Map([...records.asked, ...view.records.asked]) },
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
  return { from: view.from, transcript, records: record(view.records, events), live: live ?? view.live };
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
