// A stranger's program over the client that hey-api makes of the document. It
// prints what it has seen.
import * as parley from "./client";
import { client } from "./client/client.gen";

const [url, key] = process.argv.slice(2) as [string, string];
client.setConfig({ baseUrl: url, auth: key });

async function main() {
  const create = () => parley.createSession({ body: { app: "chaos", outside_id: "hey-api" } });
  const made = await create();
  const again = await create();
  if (!made.data || !again.data) throw new Error(JSON.stringify(made.error ?? again.error));
  const id = made.data.id;

  const sent = await parley.send({ path: { id }, body: { message: "Who is on call?" } });
  if (!sent.data) throw new Error(JSON.stringify(sent.error));
  const ended = await parley.awaitTurn({ path: { id: sent.data.id }, body: { timeout_ms: 60000 } });

  const types: string[] = [];
  const { stream } = await parley.streamTurn({ path: { id }, body: { message: "Who is on call?" } });
  for await (const frame of stream) {
    if ("type" in frame) types.push(frame.type);
  }
  let followed = 0;
  const follow = new AbortController();
  const log = await parley.followEvents({ path: { id }, query: { after: 0, deltas: false }, signal: follow.signal, sseMaxRetryAttempts: 1 });
  for await (const frame of log.stream) {
    if ("type" in frame && typeof frame.seq === "number") followed = frame.seq; // a message of a view has none
    if ("type" in frame && frame.type === "turn.completed") {
      follow.abort();
      break;
    }
  }

  const list = await parley.listSessions({ query: { app: "chaos", limit: 10 } });
  const page = await parley.events({ path: { id }, query: { types: "turn.*" } });
  const gone = await parley.getSession({ path: { id: "nothing" } });
  const stranger = await parley.listSessions({ auth: undefined });
  console.log(JSON.stringify({
    created: [made.response?.status, again.response?.status, again.data.id === id],
    sent: [sent.response?.status, sent.data.session_id === id],
    ended: ended.data?.status,
    answered: (ended.data?.response?.message.length ?? 0) > 0,
    streamed: [200, types[0], types.at(-1)],
    followed: followed > 0,
    listed: list.data?.sessions.some((s) => s.id === id),
    page: page.data?.events.map((e) => e.type),
    gone: [gone.response?.status, gone.error?.error.code],
    stranger: [stranger.response?.status, stranger.error?.error.code],
  }));
}

void main();
