// Drives MCP servers with the official client: a line of JSON in, a line out. Every answer is
// {"ok": ...} or {"error": ...}.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createInterface } from 'node:readline';

const servers = new Map();
const deadline = { timeout: 60_000 };

const ops = {
  // Connects to a program or an address. Without choice the client has nobody to put a form before.
  open: async ({ name, url, headers, command, args, env, cwd, choice }) => {
    const client = new Client({ name: 'test', version: '1' }, { capabilities: choice ? { elicitation: { form: {} } } : {} });
    const forms = [];
    if (choice) {
      client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
        forms.push(params.message);
        return { action: 'accept', content: { choice } };
      });
    }
    const transport = url
      ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
      : new StdioClientTransport({ command, args, env, cwd, stderr: 'inherit' });
    await client.connect(transport, deadline);
    servers.set(name, { client, transport, forms });
    return { server: client.getServerVersion().name, tools: 'tools' in client.getServerCapabilities() };
  },
  // All tools, page by page. The client compiles the schemas of their results.
  tools: async ({ name }) => {
    const { client } = servers.get(name);
    const all = [];
    let cursor;
    do {
      const page = await client.listTools(cursor ? { cursor } : undefined, deadline);
      all.push(...page.tools);
      cursor = page.nextCursor;
    } while (cursor);
    return all.map((t) => ({ name: t.name, reads: t.annotations?.readOnlyHint ?? false, described: !!t.description, input: t.inputSchema.type })).sort((a, b) => (a.name < b.name ? -1 : 1));
  },
  call: async ({ name, tool, input }) => {
    const got = await servers.get(name).client.callTool({ name: tool, arguments: input }, undefined, deadline);
    return { text: got.content.map((c) => c.text ?? c.type).join('\n'), failed: got.isError ?? false };
  },
  // What a person was asked since the last time.
  forms: async ({ name }) => servers.get(name).forms.splice(0),
  ping: async ({ name }) => Object.keys(await servers.get(name).client.ping(deadline)).length,
  close: async ({ name }) => {
    const { client, transport } = servers.get(name);
    servers.delete(name);
    if (transport.terminateSession) await transport.terminateSession();
    await client.close();
    return true;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...args } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ ok: await ops[op](args) }));
  } catch (e) {
    console.log(JSON.stringify({ error: { code: e.code ?? null, message: e.message } }));
  }
}
for (const { client } of servers.values()) await client.close();
