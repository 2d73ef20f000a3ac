// Reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) from
// a fetch body. EventSource does not fit: it sends no headers, and hides the status of an error
// response.

export interface SSEFrame {
  id: string | undefined;
  event: string;
  data: string;
}

/** Larger than any event of the server; a larger frame means that this is not our stream. */
const maxFrame = 32 << 20;

/** Splits text that arrives in arbitrary pieces into frames. Comments are dropped. */
export class SSEParser {
  #rest = "";
  #id: string | undefined;
  #event = "";
  #data: string[] = [];
  #size = 0;

  push(text: string): SSEFrame[] {
    const frames: SSEFrame[] = [];
    const all = this.#rest + text;
    let from = 0;
    for (;;) {
      const end = lineEnd(all, from);
      if (end < 0) break;
      this.#line(all.slice(from, end), frames);
      from = end + (all[end] === "\r" && all[end + 1] === "\n" ? 2 : 1);
    }
    this.#rest = all.slice(from);
    if (this.#rest.length + this.#size > maxFrame) throw new Error("a frame of the stream is too large");
    return frames;
  }

  #line(line: string, frames: SSEFrame[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        frames.push({ id: this.#id, event: this.#event || "message", data: this.#data.join("\n") });
      }
      this.#id = undefined;
      this.#event = "";
      this.#data = [];
      this.#size = 0;
      return;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") {
      this.#data.push(value);
      this.#size += value.length;
    } else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
  }
}

/** The end of the line that starts at from, or -1. A final "\r" waits, because a "\n" may follow. */
function lineEnd(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 10) return i;
    if (c === 13) return i + 1 < text.length ? i : -1;
  }
  return -1;
}
