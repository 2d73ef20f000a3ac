import type { Rule } from "../../api/types.gen.ts";

/** The rule's tool, by which a server gets replies of the model. No tool has such a name. */
const sampling = "sampling:";

/** A rule in words: the tool, its subject, and the entities it covers. */
export function nameOf(r: Rule): string {
  const tool = r.tool ?? "";
  if (tool.startsWith(sampling)) return `replies of the model to the server ${tool.slice(sampling.length)}`;
  return r.reaches?.length ? `${tool}: ${r.reaches.join(", ")}` : tool;
}
