// The workspaces: the folders that sessions work in, and their files.

import type { Client } from "./client.ts";
import type { Backlink, Backlinks, FileContent, FileEntry, FileHistory, FileInfo, FileTree, FileVersion, WorkspaceInfo } from "./types.gen.ts";

export type { Backlink, Backlinks, FileContent, FileEntry, FileHistory, FileInfo, FileTree, FileVersion, WorkspaceInfo };

/** A workspace of an app. */
export interface Space {
  app: string;
  name: string;
}

export interface TreeOptions {
  depth?: number;
  after?: string;
  limit?: number;
  ignored?: boolean;
}

export class Workspaces {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  #query(space: Space, more: Readonly<Record<string, string | number | boolean | undefined>> = {}): string {
    const q = new URLSearchParams({ app: space.app, workspace: space.name });
    for (const [name, value] of Object.entries(more)) if (value !== undefined && value !== "" && value !== false) q.set(name, String(value));
    return q.toString();
  }

  async list(app: string, signal?: AbortSignal): Promise<WorkspaceInfo[]> {
    const got = (await this.#client.request("GET", `v1/workspaces?app=${encodeURIComponent(app)}`, { signal })) as { workspaces?: WorkspaceInfo[] | null } | undefined;
    return got?.workspaces ?? [];
  }

  /** A page of what is in a folder; "" is the whole workspace. */
  async tree(space: Space, path: string, options: TreeOptions = {}, signal?: AbortSignal): Promise<FileTree> {
    return (await this.#client.request("GET", `v1/workspaces/tree?${this.#query(space, { path, ...options })}`, { signal })) as FileTree;
  }

  async read(space: Space, path: string, line?: number, signal?: AbortSignal): Promise<FileContent> {
    return (await this.#client.request("GET", `v1/workspaces/file?${this.#query(space, { path, line })}`, { signal })) as FileContent;
  }

  /** Writes a file that has the version; without one there must be no such file. conflict: it has another. */
  async write(space: Space, path: string, text: string, version: string | undefined): Promise<FileInfo> {
    return (await this.#client.request("PUT", `v1/workspaces/file?${this.#query(space, { path })}`, { body: { text, ...(version !== undefined && { version }) } })) as FileInfo;
  }

  async remove(space: Space, path: string, version: string): Promise<void> {
    await this.#client.request("DELETE", `v1/workspaces/file?${this.#query(space, { path, version })}`);
  }

  async move(space: Space, path: string, to: string, version: string): Promise<FileInfo> {
    return (await this.#client.request("POST", `v1/workspaces/file/move?${this.#query(space, { path })}`, { body: { to, version } })) as FileInfo;
  }

  /** The versions of a file, the newest first: a page of them. */
  async history(space: Space, path: string, after?: string): Promise<FileHistory> {
    return (await this.#client.request("GET", `v1/workspaces/history?${this.#query(space, { path, after })}`)) as FileHistory;
  }

  /** The notes that link to a file. */
  async backlinks(space: Space, path: string, signal?: AbortSignal): Promise<Backlinks> {
    const got = (await this.#client.request("GET", `v1/workspaces/backlinks?${this.#query(space, { path })}`, { signal })) as Partial<Backlinks> | undefined;
    return { ...got, links: got?.links ?? [] };
  }

  /** A file as it was in a version of its history. */
  async version(space: Space, path: string, id: string, signal?: AbortSignal): Promise<FileContent> {
    return (await this.#client.request("GET", `v1/workspaces/history/file?${this.#query(space, { path, id })}`, { signal })) as FileContent;
  }

  /** A file's content as an object URL of a type; revoke() releases it. */
  async fetched(space: Space, path: string, type: string | undefined, signal?: AbortSignal): Promise<{ url: string; revoke(): void }> {
    const blob = await this.#client.download(`v1/workspaces/content?${this.#query(space, { path })}`, signal);
    const url = URL.createObjectURL(type ? new Blob([blob], { type }) : blob);
    return { url, revoke: () => URL.revokeObjectURL(url) };
  }
}
