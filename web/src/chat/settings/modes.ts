import type { AppInfo } from "../../api/client.ts";
import type { PermissionMode } from "../../api/types.gen.ts";

/**
 * Whether a page shows how much a conversation asks before it acts. It does if a tool changes something. It
 * does, too, if the app offers to ask nothing, since then it asks about a tool that only reads. And a mode that
 * somebody chose is never hidden.
 */
export function showsMode(app: Pick<AppInfo, "tools" | "modes"> | undefined, mode: PermissionMode): boolean {
  if (mode !== "default") return true;
  return (app?.tools?.some((t) => t.effect !== "read") || app?.modes?.includes("bypassPermissions")) ?? false;
}

/** Whether a page offers a mode: one about edits only if the app has a tool that edits files. */
export function offersMode(app: Pick<AppInfo, "tools" | "modes"> | undefined, mode: PermissionMode): boolean {
  if (mode === "acceptEdits" && !app?.tools?.some((t) => t.edits)) return false;
  return app?.modes?.includes(mode) ?? mode === "default";
}
