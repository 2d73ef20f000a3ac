// Sessions with long logs in a real server's store: they are imported, as an export of another server is.

import { crc32, deflateRawSync } from "node:zlib";

import type { Event } from "../src/api/types.gen.ts";

const usage = { input_tokens: 100, output_tokens: 50 };

/** The log of a session of the app with turns of so many tool calls each. */
export function worked(app: string, calls: readonly number[]): Event[] {
  const events: { turn?: string; agent?: string; type: Event["type"]; data: unknown }[] = [
    { type: "session.created", data: { app, user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 1 } },
  ];
  calls.forEach((n, i) => {
    const turn = `01JTRN${String(i).padStart(20, "0")}`;
    const at = { turn, agent: app };
    events.push(
      { turn, type: "turn.started", data: { origin: "user", message: { role: "user", parts: [{ type: "text", text: `Question ${i}?` }] }, budgets: {}, app, by: "local", client: "api" } },
      { ...at, type: "agent.started", data: { name: app } },
    );
    for (let c = 0; c < n; c++) {
      const [call, tool] = [`m${i}.${c}`, `c${i}.${c}`];
      const input = { pattern: `word ${c} of turn ${i}` };
      events.push(
        { ...at, type: "model.started", data: { call, model: "scripted", context: "x", reserved: usage } },
        { ...at, type: "model.replied", data: { call, model: "scripted", parts: [{ type: "tool_call", call: tool, name: "Grep", input }], usage } },
        { ...at, type: "tool.requested", data: { call: tool, name: "Grep", input } },
        { ...at, type: "tool.started", data: { call: tool, name: "Grep", input, effect: "read", deadline: "2026-03-01T10:00:00Z", attempt: 1 } },
        { ...at, type: "tool.ended", data: { call: tool, name: "Grep", outcome: "ok", output: `notes/${c}.md:12: ${"a line that was found ".repeat(12)}`, took_ms: 3 } },
      );
    }
    const message = `Answer ${i}. ${"It is long. ".repeat(20)}`;
    events.push(
      { ...at, type: "model.started", data: { call: `m${i}`, model: "scripted", context: "x", reserved: usage } },
      { ...at, type: "model.replied", data: { call: `m${i}`, model: "scripted", parts: [{ type: "text", text: message }], usage } },
      { turn, type: "turn.completed", data: { response: { message }, usage } },
    );
  });
  const begun = Date.now() - events.length * 10 - 60_000;
  return events.map((e, i) => ({ session: "01JSN000000000000000000001", seq: i + 1, time: new Date(begun + i * 10).toISOString(), ...e }) as Event);
}

/** Imports a log and returns the session's id. */
export async function fill(url: string, events: readonly Event[]): Promise<string> {
  const body = zip("events.ndjson", Buffer.from(events.map((e) => JSON.stringify(e) + "\n").join("")));
  const response = await fetch(`${url}/v1/sessions/import`, { method: "POST", headers: { "Content-Type": "application/zip" }, body: new Uint8Array(body) });
  if (response.status !== 201) throw new Error(`the import was refused: ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

/** A zip file of one file (APPNOTE.TXT 4.3). */
function zip(name: string, data: Buffer): Buffer {
  const packed = deflateRawSync(data);
  const shared = Buffer.alloc(26); // what both headers have: version, flags, method, time, CRC, sizes, lengths of name and extra
  shared.writeUInt16LE(20, 0);
  shared.writeUInt16LE(8, 4);
  shared.writeUInt32LE(crc32(data), 10);
  shared.writeUInt32LE(packed.length, 14);
  shared.writeUInt32LE(data.length, 18);
  shared.writeUInt16LE(name.length, 22);
  const local = Buffer.concat([Buffer.from("PK\x03\x04", "latin1"), shared, Buffer.from(name), packed]);
  const central = Buffer.concat([Buffer.from("PK\x01\x02\x14\x00", "latin1"), shared, Buffer.alloc(14), Buffer.from(name)]);
  const end = Buffer.alloc(22);
  end.write("PK\x05\x06", 0, "latin1");
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}
