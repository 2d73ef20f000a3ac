import type { LoginAnswer, LoginFinished } from "../../api/types.gen.ts";

/** What an authorization server has put into the query of an address; undefined if it is none of its answers. */
export function answerIn(query: string): LoginAnswer | undefined {
  const q = new URLSearchParams(query);
  const state = q.get("state");
  if (!state || (!q.has("code") && !q.has("error"))) return undefined;
  const answer: LoginAnswer = { state };
  for (const name of ["code", "iss", "error"] as const) {
    const value = q.get(name);
    if (value !== null) answer[name] = value;
  }
  return answer;
}

/** Services whose answers are handed in at a path of their own, by that path. The server's address has it as "at". */
const others: Record<string, string> = { "/api/linkedin/oauth/callback": "LinkedIn" };

/** Another service's answer, and where it is handed in. */
export interface OtherAnswer {
  service: string;
  /** A path and a query, relative to the server. */
  path: string;
}

/** What another service has put into the query of an address; undefined if it is none of theirs. */
export function otherAnswerIn(query: string): OtherAnswer | undefined {
  const q = new URLSearchParams(query);
  const at = q.get("at") ?? "";
  const service = Object.hasOwn(others, at) ? others[at] : undefined;
  if (service === undefined) return undefined;
  q.delete("at");
  return { service, path: `${at.slice(1)}?${q}` };
}

/** What a finished login at another service says. */
export const otherDoneText = (service: string) => `You are logged in at ${service}. You can close this page; what waits for the login goes on by itself.`;

/** What a finished login says. A link from the list of resources begins one that no call waits for. */
export function doneText({ login, denied, continues }: LoginFinished): string {
  const at = denied ? `You are not logged in at ${login.server}.` : `You are logged in at ${login.server}.`;
  if (continues) return `${at} You can close this page; the conversation goes on by itself.`;
  return denied ? `${at} You can close this page.` : `${at} You can close this page and go back to your conversation, where ${login.server} can be used now.`;
}
