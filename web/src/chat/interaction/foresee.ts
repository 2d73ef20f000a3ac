// What a call that asks for a permission would do, where the page can show it better than as names and values: a change of a
// file as a diff, and a post as it will look.

import type { Interaction } from "../../api/types.gen.ts";
import { plannedIn, type Planned } from "../turn/tools.ts";

export interface Post {
  what: "post" | "comment" | "reply";
  /** In whose name, as the server says it; "" if it does not. */
  who: string;
  text: string;
  /** Why the server asks, besides what the post says. */
  reason: string;
  /** What is commented on or replied to. */
  on: string;
  /** The most characters that LinkedIn takes. */
  most: number;
}

/** reason is the text without what the diff shows better. No main: the change has no text of its own. */
export type Foreseen = { kind: "change"; change: Planned; reason?: string; main?: Main } | { kind: "post"; post: Post; main: Main };

/** The part of the input that is a text for people. */
export interface Main {
  field: string;
  label: string;
  text: string;
  most?: number;
}

const whats: Readonly<Record<string, Post["what"]>> = { linkedin_post: "post", linkedin_post_comment: "comment", linkedin_reply_comment: "reply" };

/** What the server says before a post, and in whose name it is. */
const preview = /(?:^|\n\n)A public (?:post|comment|reply) on LinkedIn in the name of ([^\n]{1,200}?)(?:, (?:on|to) urn:[^\n]*)?:\n\n/;

/** What the tools for a lake say of a change to those who see no diff: its lines, at the end. */
const lines = /(?:^|\n)(?:\n[-+][^\n]*)+$/;

/** Why a lake is changed, and why the server asks, without the lines of the change below it. */
function reasonOf(text: string, input: unknown): string {
  const { reason } = input as { reason?: unknown };
  const at = typeof reason === "string" && reason.trim() !== "" ? text.lastIndexOf(`${reason.trim()}\n`) : -1;
  return at < 0 ? text.replace(lines, "") : text.slice(0, at + (reason as string).trim().length);
}

export function foreseenIn(i: Interaction): Foreseen | undefined {
  if (i.kind !== "permission" && i.kind !== "confirmation") return undefined;
  const change = plannedIn(i.tool, i.input);
  if (change) {
    const main = change.before === undefined ? { field: "content", label: "What the file is to have" } : { field: "new_string", label: "The new text" };
    const reason = i.tool?.startsWith("lake_") ? { reason: reasonOf(i.text ?? "", i.input) } : {};
    return { kind: "change", change, ...reason, ...(change.after !== undefined && { main: { ...main, text: change.after } }) };
  }
  const post = postIn(i);
  return post && { kind: "post", post, main: { field: "text", label: `Text of the ${post.what}`, text: post.text, most: post.most } };
}

function postIn(i: Interaction): Post | undefined {
  const what = whats[(i.tool ?? "").replace(/^mcp__linkedin__/, "")];
  const input = (typeof i.input === "object" && i.input !== null ? i.input : {}) as Readonly<Record<string, unknown>>;
  const said = preview.exec(i.text ?? "");
  if (!what || typeof input["text"] !== "string") return undefined;
  const on = [input["comment_urn"], input["post_urn"]].filter((u) => typeof u === "string").join(" on ");
  return { what, who: said?.[1] ?? "", text: input["text"], reason: said ? (i.text ?? "").slice(0, said.index) : (i.text ?? ""), on, most: what === "post" ? 3000 : 1250 };
}

export interface PostPart {
  text: string;
  /** LinkedIn shows it as a link. */
  link: boolean;
}

/** As LinkedIn reads it: a mention by its name, a tag, an address. */
const linked = /@\[([^[\]()\\{}<>|@#\n]{1,200})\]\(urn:li:(?:organization|person):[A-Za-z0-9-]{1,100}\)|(?<![\p{L}\p{N}])#[\p{L}\p{N}_]+|https?:\/\/[^\s]+[^\s.,;:!?)'"\]]/gu;

/** The text of a post in the parts that LinkedIn shows differently. */
export function partsOfPost({ what, text }: Pick<Post, "what" | "text">): PostPart[] {
  const parts: PostPart[] = [];
  let at = 0;
  for (const m of text.matchAll(linked)) {
    if (m[1] !== undefined && what !== "post") continue; // only posts have mentions
    if (m.index > at) parts.push({ text: text.slice(at, m.index), link: false });
    parts.push({ text: m[1] ?? m[0], link: true });
    at = m.index + m[0].length;
  }
  if (at < text.length) parts.push({ text: text.slice(at), link: false });
  return parts;
}

/** What a file that is to be changed has, as far as it is known. */
export type Current = { state: "reading" } | { state: "unknown" } | { state: "none" } | { state: "read"; text: string };

/** The texts to compare, and what to say besides. */
export function comparisonOf({ after, ...p }: Planned, now: Current): { before: string; after: string; whole: boolean; note: string } {
  if (after === undefined) {
    const note = now.state === "none" ? "There is no such page, so the call will fail." : now.state === "unknown" ? "What the page has now cannot be read here." : "";
    return { before: "", after: "", whole: true, note };
  }
  if (p.before === undefined) {
    if (now.state === "read") return { before: now.text, after, whole: true, note: now.text === after ? "The file already has exactly this." : "" };
    return { before: "", after, whole: now.state === "none", note: now.state === "none" ? "A new file." : now.state === "unknown" ? "What the file has now cannot be read here; all of it is replaced by this." : "" };
  }
  const part = { before: p.before, after, whole: false };
  if (now.state === "none") return p.before === "" ? { before: "", after, whole: true, note: "A new file." } : { ...part, note: "There is no such file, so the call will fail." };
  if (now.state !== "read") return { ...part, note: now.state === "unknown" && p.everywhere ? "This is replaced everywhere in the file." : "" };
  // A file that has only CRLF keeps it, whatever the call says.
  const crlf = /\r\n/.test(now.text) && !/[^\r]\n/.test(now.text);
  const ends = (t: string) => (crlf && !t.includes("\r\n") ? t.replaceAll("\n", "\r\n") : t);
  const [old, fresh] = [ends(p.before), ends(after)];
  const times = old === "" ? (now.text === "" ? 1 : 0) : now.text.split(old).length - 1;
  if (times === 0) return { ...part, note: "The text to replace is not in the file as it is now, so the call will fail." };
  if (times > 1 && !p.everywhere) return { ...part, note: `The text to replace is in the file ${times} times, so the call will fail.` };
  return { before: now.text, after: old === "" ? fresh : now.text.split(old).join(fresh), whole: true, note: "" };
}
