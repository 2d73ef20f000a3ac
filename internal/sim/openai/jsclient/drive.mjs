// Drives a chat completions server with OpenAI's own client, and what is Ollama's
// own with that of Ollama: a line of JSON in,
// a line out. Every answer is {"ok": ...} or {"error": ...}.
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { createInterface } from 'node:readline';

let client;

const ops = {
  connect: ({ url, key }) => {
    client = new OpenAI({ apiKey: key, baseURL: url, maxRetries: 0 });
    return true;
  },
  models: async () => {
    const ids = [];
    for await (const m of client.models.list()) ids.push(m.id);
    return ids;
  },
  model: async ({ id }) => (await client.models.retrieve(id)).id,
  // What Ollama tells of a model before and after it is loaded.
  ollama: async ({ url, model }) => {
    const o = new Ollama({ host: url });
    const before = (await o.ps()).models.length;
    const shown = await o.show({ model });
    const { models } = await o.list();
    const { done, response } = await o.generate({ model, prompt: '' });
    const [loaded] = (await o.ps()).models;
    return { before, models: models.map((m) => m.name), parameters: shown.parameters, trained: shown.model_info['qwen3.context_length'], done, response, loaded: loaded.name, context: loaded.context_length };
  },
  // What was said, at once.
  create: async ({ body }) => {
    const r = await client.chat.completions.create(body);
    const c = r.choices[0];
    return { message: c.message, finish: c.finish_reason, usage: r.usage, object: r.object };
  },
  // The same, put together by the client from a stream.
  stream: async ({ body }) => {
    let pieces = 0;
    const s = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } });
    s.on('content', () => { pieces++; });
    const r = await s.finalChatCompletion();
    const c = r.choices[0];
    return { message: c.message, finish: c.finish_reason, usage: r.usage, several: pieces > 1 };
  },
  // Goes away in the middle.
  leave: async ({ body }) => {
    const s = await client.chat.completions.create({ ...body, stream: true });
    for await (const _ of s) { s.controller.abort(); break; }
    return true;
  },
  // The conversation of a tool call, as the client's users write it.
  tool: async ({ body, result }) => {
    const first = await client.chat.completions.create(body);
    const m = first.choices[0].message;
    const messages = [...body.messages, m, ...m.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: result }))];
    const second = await client.chat.completions.create({ ...body, messages });
    return second.choices[0].message.content;
  },
};

const lines = createInterface({ input: process.stdin });
for await (const line of lines) {
  const { op, ...args } = JSON.parse(line);
  let out;
  try {
    out = { ok: await ops[op](args) };
  } catch (e) {
    out = { error: { name: e?.constructor?.name, status: e?.status ?? null, code: e?.code ?? null, type: e?.type ?? null, param: e?.param ?? null, message: String(e?.message), after: e?.headers?.get?.('retry-after') ?? null } };
  }
  process.stdout.write(JSON.stringify(out) + '\n');
}
