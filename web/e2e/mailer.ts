// An MCP server at which people log in, with an authorization server of its own. Both are made of the official SDK, so
// that a login is tried against code that is not ours.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { InvalidGrantError, InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import type { AuthorizationParams, OAuthServerProvider } from "@modelcontextprotocol/sdk/server/auth/provider.js";
import { getOAuthProtectedResourceMetadataUrl, mcpAuthRouter } from "@modelcontextprotocol/sdk/server/auth/router.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { OAuthClientInformationFull } from "@modelcontextprotocol/sdk/shared/auth.js";

export interface Mailer {
  url: string;
  /** The tokens with which mail was sent. */
  sent: string[];
  /** Ends all logins. */
  forget(): void;
  close(): void;
}

/** A page that asks the person, as authorization servers have it. */
const consent = (client: string, allow: string, deny: string) => `<!doctype html><html lang="en"><title>Post office</title>
<h1>Post office</h1><p>${client} wants to send mail in your name.</p><p><a href="${allow}">Allow</a> <a href="${deny}">Deny</a></p>`;

export async function startMailer(): Promise<Mailer> {
  const clients = new Map<string, OAuthClientInformationFull>();
  const codes = new Map<string, { client: string; asked: AuthorizationParams }>();
  const tokens = new Map<string, { client: string; until: number; resource?: URL }>();
  const sent: string[] = [];
  const provider: OAuthServerProvider = {
    clientsStore: {
      getClient: (id: string) => clients.get(id),
      registerClient: (c) => {
        const made = c as OAuthClientInformationFull;
        clients.set(made.client_id, made);
        return made;
      },
    },
    authorize: async (client, asked, res) => {
      const code = randomUUID();
      codes.set(code, { client: client.client_id, asked });
      const back = (said: Record<string, string>) => `${asked.redirectUri}?${new URLSearchParams({ ...said, ...(asked.state && { state: asked.state }) }).toString()}`.replaceAll("&", "&amp;");
      (res as { send(text: string): void }).send(consent(client.client_name ?? "Somebody", back({ code }), back({ error: "access_denied" })));
    },
    challengeForAuthorizationCode: async (_, code) => {
      const of = codes.get(code);
      if (!of) throw new InvalidGrantError("no such code");
      return of.asked.codeChallenge;
    },
    exchangeAuthorizationCode: async (client, code, _, redirect) => {
      const of = codes.get(code);
      if (of?.client !== client.client_id || of.asked.redirectUri !== redirect) throw new InvalidGrantError("no such code");
      codes.delete(code); // a code counts once
      const token = randomUUID();
      tokens.set(token, { client: of.client, until: Date.now() / 1000 + 3600, ...(of.asked.resource && { resource: of.asked.resource }) });
      return { access_token: token, token_type: "bearer", expires_in: 3600 };
    },
    exchangeRefreshToken: async () => {
      throw new InvalidGrantError("no such token");
    },
    verifyAccessToken: async (token) => {
      const of = tokens.get(token);
      if (!of) throw new InvalidTokenError("no such token");
      return { token, clientId: of.client, scopes: [], expiresAt: of.until, ...(of.resource && { resource: of.resource }) };
    },
  };

  const app = createMcpExpressApp();
  const site = createServer(app as never);
  await new Promise<void>((done) => site.listen(0, "127.0.0.1", done));
  const base = new URL(`http://127.0.0.1:${(site.address() as AddressInfo).port}`);
  const mcp = new URL("/mcp", base);
  app.use(mcpAuthRouter({ provider, issuerUrl: base, resourceServerUrl: mcp }));
  app.post(
    "/mcp",
    requireBearerAuth({ verifier: provider, expectedResource: mcp, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(mcp) }),
    async (q: never, r: never) => {
      const { auth, body } = q as { auth: { token: string }; body: unknown };
      const server = new McpServer({ name: "post", version: "1" });
      server.registerTool("mail", { description: "Sends a mail." }, () => {
        sent.push(auth.token);
        return { content: [{ type: "text", text: "The mail is sent." }] };
      });
      server.registerResource("Letter", "post://letter", { title: "Letter to Ana" }, () => ({ contents: [{ uri: "post://letter", text: "Dear Ana." }] }));
      const transport = new StreamableHTTPServerTransport({});
      await server.connect(transport as never);
      await transport.handleRequest(q, r, body);
    },
  );
  return {
    url: mcp.href,
    sent,
    forget: () => tokens.clear(),
    close: () => {
      site.closeAllConnections();
      site.close();
    },
  };
}
