import type { LoginAnswer } from "../../api/types.gen.ts";

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
