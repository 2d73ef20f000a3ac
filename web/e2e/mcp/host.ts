// The script of the page of another origin.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

Object.assign(window, {
  ask: async (url: string, key: string) => {
    const client = new Client({ name: "page", version: "1" });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    const { tools } = await client.listTools();
    const started = await client.callTool({ name: "ha_agent.start_session", arguments: {} });
    const { session_id } = started.structuredContent as { session_id: string };
    const sent = await client.callTool({ name: "ha_agent.send_message", arguments: { session_id, message: "Which lights are on?" } });
    const { continuation_id } = sent.structuredContent as { continuation_id: string };
    const done = await client.callTool({ name: "ha_agent.await_continuation", arguments: { continuation_id } });
    const { response } = done.structuredContent as { response?: { finalMessage: string } };
    const session = transport.sessionId ?? "";
    await transport.terminateSession();
    await client.close();
    return { tools: tools.map((t) => t.name), session, answer: response?.finalMessage ?? "" };
  },
  challenge: async (url: string) => {
    const r = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
    return { status: r.status, challenge: r.headers.get("WWW-Authenticate") };
  },
});
