// An MCP server over stdio, with the official SDK. Its resources can be read, are gone, or are too large; its one
// tool asks the host's model.

import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

if (process.argv.includes("--broken")) {
  console.error("attic: no such shelf");
  process.exit(1);
}

const server = new McpServer({ name: "shelf", version: "1" }, { capabilities: { logging: {} } });
const text = (uri, text) => ({ contents: [{ uri: String(uri), mimeType: "text/markdown", text }] });
const add = (name, uri, description, read) => server.registerResource(name, uri, { title: name, description, mimeType: "text/markdown" }, read);

add("Garden plan", "file:///garden/plan.md", "What grows where this year", async (uri) => text(uri, "Bed 3: tomatoes.\nBed 4: leek."));
add("Harvest", "file:///garden/harvest.md", "What was picked, by week", async (uri) => text(uri, "Week 30: five tomatoes."));
add("Old diary", "file:///diary/2019.md", "", async () => {
  throw new Error("the file was moved");
});
add("Seed catalogue", "file:///garden/seeds.csv", "All varieties that can be ordered, with their prices, suppliers and the months in which they are sown", async (uri) =>
  text(uri, "seed;price\n".repeat(40_000)));
add("Ledger", "file:///ledger.md", "", () => new Promise(() => {}));
for (let i = 1; i <= 60; i++) add(`Letter ${i}`, `file:///letters/${i}.md`, "", async (uri) => text(uri, `Letter ${i}.`));

server.registerResource("Weather of a day", new ResourceTemplate("weather://{place}/{day}", { list: undefined }), { title: "Weather of a day" }, async (uri, { place, day }) =>
  text(uri, `${decodeURIComponent(place)}, ${decodeURIComponent(day)}: rain.`));

server.registerTool("study", { description: "Studies.", annotations: { readOnlyHint: true } }, async () => {
  const got = await server.server.createMessage({
    maxTokens: 200,
    systemPrompt: "Answer in one sentence, for a child.",
    messages: [{ role: "user", content: { type: "text", text: "What makes the tides?" } }],
  });
  return { content: [{ type: "text", text: `Studied. The model said: ${got.content.text}` }] };
});

await server.connect(new StdioServerTransport());
