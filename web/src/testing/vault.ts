// The workspaces of a server for tests, behind fetch: files in memory, with the versions and refusals of the real one.

import type { Fetch } from "../api/client.ts";
import type { WorkspaceInfo } from "../api/workspaces.ts";

const json = (status: number, body: unknown): Response => new Response(status === 204 ? null : JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
const refuse = (status: number, code: string, message: string, more: object = {}): Response => json(status, { error: { code, message, ...more } });

export class FakeVault {
  readonly requests: string[] = [];
  down = false;
  spaces: WorkspaceInfo[] = [{ app: "notes", name: "shared/petra", kind: "granted", default: true }];
  /** By workspace: files by path. */
  readonly files = new Map<string, Map<string, string>>();
  /** Called before a request is answered. */
  before: ((method: string, path: string) => void | Promise<void>) | undefined;
  /** Lines of a read. */
  lines = 10_000;

  constructor(files: Readonly<Record<string, string>> = {}, space = "shared/petra") {
    this.files.set(space, new Map(Object.entries(files)));
  }

  of(space = "shared/petra"): Map<string, string> {
    let f = this.files.get(space);
    if (!f) this.files.set(space, (f = new Map()));
    return f;
  }

  readonly fetch: Fetch = async (input, init) => {
    const url = new URL(input, "http://parley.test/");
    const method = init?.method ?? "GET";
    const path = url.searchParams.get("path") ?? "";
    this.requests.push(`${method} ${url.pathname.replace("/v1/workspaces", "") || "/"} ${path}`.trim());
    await this.before?.(method, path);
    if (init?.signal?.aborted) throw new DOMException("aborted", "AbortError");
    if (this.down) throw new TypeError("fetch failed");
    if (url.pathname === "/v1/workspaces") return json(200, { workspaces: this.spaces });
    const space = url.searchParams.get("workspace") ?? "";
    if (!this.spaces.some((s) => s.name === space)) return refuse(404, "not_found", "there is no such workspace");
    const files = this.of(space);
    const body = init?.body ? (JSON.parse(String(init.body)) as { text?: string; version?: string; to?: string }) : {};
    const have = files.get(path);
    switch (`${method} ${url.pathname}`) {
      case "GET /v1/workspaces/tree":
        return json(200, tree(files, path, Number(url.searchParams.get("depth") ?? 1), url.searchParams.get("after") ?? "", Number(url.searchParams.get("limit") ?? 500)));
      case "GET /v1/workspaces/file": {
        if (have === undefined) return refuse(404, "not_found", `there is no ${path}`);
        const line = Number(url.searchParams.get("line") ?? 1);
        const all = have.split(/(?<=\n)/);
        const next = line + this.lines;
        return json(200, { ...infoOf(path, have), text: all.slice(line - 1, next - 1).join(""), line, lines: all.length, ...(next <= all.length && { next_line: next }) });
      }
      case "PUT /v1/workspaces/file": {
        const text = body.text ?? "";
        if (have !== text && (body.version ?? "") !== (have === undefined ? "" : versionOf(have))) return refuse(409, "conflict", `${path} has changed`, { field: "version" });
        files.set(path, text);
        return json(have === undefined ? 201 : 200, infoOf(path, text));
      }
      case "DELETE /v1/workspaces/file":
        if (have === undefined) return refuse(404, "not_found", `there is no ${path}`);
        if (url.searchParams.get("version") !== versionOf(have)) return refuse(409, "conflict", `${path} has changed`);
        files.delete(path);
        return json(204, undefined);
      case "POST /v1/workspaces/file/move":
        if (have === undefined) return refuse(404, "not_found", `there is no ${path}`);
        if (files.has(body.to ?? "")) return refuse(409, "conflict", `there is a ${body.to} already`, { field: "to" });
        files.delete(path);
        files.set(body.to ?? "", have);
        return json(200, infoOf(body.to ?? "", have));
    }
    return refuse(404, "not_found", "no such address");
  };
}

export const versionOf = (text: string): string => `v${[...text].reduce((h, c) => (h * 31 + (c.codePointAt(0) ?? 0)) % 1_000_000_007, 7)}`;

const infoOf = (path: string, text: string) => ({ path, version: versionOf(text), size: text.length, modified: "2026-03-01T12:00:00Z", media_type: "text/plain; charset=utf-8" });

function tree(files: ReadonlyMap<string, string>, folder: string, depth: number, after: string, limit: number): unknown {
  const kinds = new Map<string, "file" | "folder">();
  const inside = folder === "" ? "" : `${folder}/`;
  for (const path of files.keys()) {
    if (!path.startsWith(inside)) continue;
    const parts = path.slice(inside.length).split("/");
    for (let d = 1; d <= Math.min(depth, parts.length); d++) kinds.set(inside + parts.slice(0, d).join("/"), d === parts.length ? "file" : "folder");
  }
  if (kinds.size === 0 && folder !== "") return {};
  // A folder comes right before what is in it.
  const key = (p: string) => p.split("/").join("\u0000");
  const all = [...kinds.keys()].sort((a, b) => (key(a) < key(b) ? -1 : 1));
  const from = after === "" ? 0 : all.findIndex((p) => key(p) > key(after));
  const page = from < 0 ? [] : all.slice(from, from + limit);
  const more = from >= 0 && from + limit < all.length;
  return { entries: page.map((path) => ({ path, kind: kinds.get(path), size: files.get(path)?.length })), ...(more && { next: page.at(-1) }) };
}
