// A stranger's program over openapi-fetch, with the types that openapi-typescript
// makes of the document. It prints what it has seen.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

type Frame = components["schemas"]["Frame"];

const [url, key] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

// The body of a stream: the data of its events.
async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  let text = "";
  const utf8 = new TextDecoder();
  for await (const bytes of body) {
    text += utf8.decode(bytes, { stream: true });
    const events = text.split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const data = event.split("\n").filter((l) => l.startsWith("data: ")).map((l) => l.slice(6));
      if (data.length > 0) yield JSON.parse(data.join("\n")) as Frame;
    }
  }
}

async function main() {
  const create = () => client.POST("/v1/sessions", { body: { app: "chaos", outside_id: "openapi-fetch" } });
  const made = await create();
  const again = await create();
  if (made.error || again.error) throw new Error(JSON.stringify(made.error ?? again.error));
  const id = made.data.id;

  const sent = await client.POST("/v1/sessions/{id}/turns", { params: { path: { id } }, body: { message: "Who is on call?" } });
  if (sent.error) throw new Error(sent.error.error.message);
  const ended = await client.POST("/v1/turns/{id}/await", { params: { path: { id: sent.data.id } }, body: { timeout_ms: 60000 } });

  const streamed = await client.POST("/v1/sessions/{id}/turns/stream", { params: { path: { id } }, body: { message: "Who is on call?" }, parseAs: "stream" });
  const types: string[] = [];
  for await (const frame of frames(streamed.data as ReadableStream<Uint8Array>)) {
    if ("type" in frame) types.push(frame.type);
  }

  const list = await client.GET("/v1/sessions", { params: { query: { app: "chaos", limit: 10 } } });
  const page = await client.GET("/v1/sessions/{id}/events", { params: { path: { id }, query: { types: "turn.*" } } });
  const gone = await client.GET("/v1/sessions/{id}", { params: { path: { id: "nothing" } } });
  const stranger = await createClient<paths>({ baseUrl: url }).GET("/v1/sessions");
  console.log(JSON.stringify({
    created: [made.response.status, again.response.status, again.data.id === id],
    sent: [sent.response.status, sent.data.session_id === id],
    ended: ended.data?.status,
    answered: (ended.data?.response?.message.length ?? 0) > 0,
    streamed: [streamed.response.status, types[0], types.at(-1)],
    listed: list.data?.sessions.some((s) => s.id === id),
    page: page.data?.events.map((e) => e.type),
    gone: [gone.response.status, gone.error?.error.code],
    stranger: [stranger.response.status, stranger.error?.error.code],
  }));
}

void main();
