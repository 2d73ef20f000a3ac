import { applyPatch, structuredPatch } from "diff";

import type { FileContent } from "../api/workspaces.ts";
import type { Draft } from "./files.ts";

/** What was typed together with what somebody else wrote meanwhile; undefined if both changed the same lines. */
export function merged(d: Draft, theirs: FileContent | undefined): string | undefined {
  if (theirs?.text === undefined || d.base.version === undefined) return undefined;
  const patch = structuredPatch("a", "b", d.base.text, d.text, "", "", { context: 1, maxEditLength: 5_000, timeout: 500 });
  if (!patch) return undefined;
  const text = applyPatch(theirs.text, patch, { autoConvertLineEndings: false });
  return text === false ? undefined : text;
}
