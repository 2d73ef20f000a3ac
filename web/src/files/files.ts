// The files of a workspace on the page: its tree, the open file, and what was typed and is not saved. What the server has is
// read again when it changes; a text that somebody typed is never given up without being asked.

import { createStore, type StoreApi } from "zustand/vanilla";

import { toApiError, type ApiError, type Client } from "../api/client.ts";
import { Workspaces, type FileContent, type FileEntry, type Space, type WorkspaceInfo } from "../api/workspaces.ts";
import { folderOf, foldersOf, type Folder } from "./tree.ts";
import type { Names } from "./links.ts";

/** The open file. */
export interface Doc {
  path: string;
  /** The heading to show, and a number that is new with each wish. */
  heading: string;
  wish: number;
  state: "reading" | "read" | "missing" | "failed";
  /** As it was read last; while it is read again, as it was before. */
  file?: FileContent;
  error?: ApiError;
}

/** A text that somebody typed. */
export interface Draft {
  text: string;
  /** What it is based on; without a version there was no file. */
  base: { text: string; version: string | undefined };
  saving: boolean;
  error?: ApiError;
  /** It could not be saved, because the file has become another; undefined in it: the file is gone. */
  conflict?: { file: FileContent | undefined };
}

export interface FilesState {
  /** Undefined until they were read; empty: the app has none. */
  spaces: readonly WorkspaceInfo[] | undefined;
  /** Why they could not be read. */
  failed: ApiError | undefined;
  space: WorkspaceInfo | undefined;
  folders: ReadonlyMap<string, Folder>;
  open: ReadonlySet<string>;
  /** The row of the tree that has the focus when the tree gets it. */
  at: string;
  doc: Doc | undefined;
  back: readonly string[];
  forward: readonly string[];
  /** By workspace and path. */
  drafts: ReadonlyMap<string, Draft>;
  /** Of all files, once they were asked for. */
  names: Names | undefined;
}

export interface FilesDeps {
  client: Client;
  app: string;
  /** What is kept between visits. */
  storage?: Pick<Storage, "getItem" | "setItem"> | undefined;
}

/** Entries of a folder that are read at once. */
const portion = 500;
/** Pages of names that are read: of a larger workspace not all files can be found by name. */
const namePages = 20;
/** Files in the history of those that were shown. */
const mostBack = 50;

export const draftKey = (space: Pick<Space, "name">, path: string): string => `${space.name}\n${path}`;
export const isChanged = (d: Draft): boolean => d.text !== d.base.text || d.base.version === undefined;

const blank = { folders: new Map<string, Folder>(), open: new Set<string>(), at: "", doc: undefined, back: [], forward: [], names: undefined };

export class Files {
  readonly store: StoreApi<FilesState>;
  readonly #at: Workspaces;
  readonly #deps: FilesDeps;
  #wish = 0;
  #reading: AbortController | undefined;
  #naming: Promise<void> | undefined;

  constructor(deps: FilesDeps) {
    this.#deps = deps;
    this.#at = new Workspaces(deps.client);
    this.store = createStore<FilesState>(() => ({ spaces: undefined, failed: undefined, space: undefined, drafts: new Map(), ...blank }));
  }

  get #state(): FilesState {
    return this.store.getState();
  }

  #set(part: Partial<FilesState>): void {
    this.store.setState(part);
  }

  get workspaces(): Workspaces {
    return this.#at;
  }

  get #key(): string {
    return `parley.${this.#deps.app}.workspace`;
  }

  /** Reads which workspaces there are, and chooses the one that was chosen last, or the default. */
  async start(): Promise<void> {
    try {
      const spaces = await this.#at.list(this.#deps.app);
      this.#set({ spaces, failed: undefined });
      const { space } = this.#state;
      const kept = this.#kept();
      const chosen = spaces.find((s) => s.name === (space?.name ?? kept)) ?? spaces.find((s) => s.default) ?? spaces[0];
      if (chosen && chosen.name !== space?.name) this.choose(chosen.name);
    } catch (cause) {
      this.#set({ failed: toApiError(cause) });
    }
  }

  #kept(): string | null {
    try {
      return this.#deps.storage?.getItem(this.#key) ?? null;
    } catch {
      return null;
    }
  }

  /** Shows a workspace. Drafts of others stay. */
  choose(name: string): void {
    const space = this.#state.spaces?.find((s) => s.name === name);
    if (!space || space.name === this.#state.space?.name) return;
    this.#reading?.abort();
    this.#naming = undefined;
    this.#set({ space, ...blank });
    try {
      this.#deps.storage?.setItem(this.#key, name);
    } catch {
      // It is chosen until the page is closed.
    }
    void this.#list("");
  }

  /** Reads a folder; with more, its next entries. */
  async #list(path: string, more = false): Promise<void> {
    const { space, folders } = this.#state;
    if (!space) return;
    const before = folders.get(path);
    const put = (f: Folder) => {
      if (this.#state.space !== space) return;
      this.#set({ folders: new Map(this.#state.folders).set(path, f) });
    };
    put({ state: "reading", entries: before?.entries ?? [], more: before?.more ?? false });
    try {
      const keep = more ? (before?.entries ?? []) : [];
      const entries: FileEntry[] = [...keep];
      // A folder that is read again shows as many entries as before.
      const wanted = more ? keep.length + portion : Math.max(portion, before?.entries.length ?? 0);
      let next = keep.at(-1)?.path;
      do {
        const page = await this.#at.tree(space, path, { limit: portion, ...(next !== undefined && { after: next }) });
        entries.push(...(page.entries ?? []));
        next = page.next;
      } while (next !== undefined && entries.length < wanted);
      put({ state: "read", entries, more: next !== undefined });
    } catch (cause) {
      const error = toApiError(cause);
      if (error.code === "not_found" && path !== "") this.#forget(path);
      else put({ state: "failed", entries: before?.entries ?? [], more: before?.more ?? false, error: error.message });
    }
  }

  /** A folder that is gone. */
  #forget(path: string): void {
    const inside = (p: string) => p === path || p.startsWith(`${path}/`);
    this.#set({
      folders: new Map([...this.#state.folders].filter(([p]) => !inside(p))),
      open: new Set([...this.#state.open].filter((p) => !inside(p))),
    });
  }

  expand(path: string): void {
    this.#set({ open: new Set(this.#state.open).add(path) });
    if (this.#state.folders.get(path)?.state !== "read") void this.#list(path);
  }

  collapse(path: string): void {
    const open = new Set(this.#state.open);
    open.delete(path);
    this.#set({ open });
  }

  /** The row that has the focus. */
  point(path: string): void {
    this.#set({ at: path });
  }

  /** The next entries of a folder, or those that could not be read. */
  further(path: string): void {
    void this.#list(path, this.#state.folders.get(path)?.state === "read");
  }

  /** Opens the folders of a file, so that its row is there. */
  reveal(path: string): void {
    for (const f of foldersOf(path)) if (!this.#state.open.has(f)) this.expand(f);
    this.#set({ at: path });
  }

  /** Shows a file, and a heading in it. */
  async show(path: string, heading = ""): Promise<void> {
    const { doc, back } = this.#state;
    if (doc?.path === path) {
      this.#set({ doc: { ...doc, heading, wish: ++this.#wish } });
      return;
    }
    this.#set({ back: doc ? [...back, doc.path].slice(-mostBack) : back, forward: [] });
    await this.#go(path, heading);
  }

  async #go(path: string, heading = ""): Promise<void> {
    this.#set({ doc: { path, heading, wish: ++this.#wish, state: "reading" }, at: path });
    await this.reread();
  }

  async goBack(): Promise<void> {
    const { back, forward, doc } = this.#state;
    const to = back.at(-1);
    if (to === undefined) return;
    this.#set({ back: back.slice(0, -1), forward: doc ? [doc.path, ...forward] : forward });
    await this.#go(to);
  }

  async goForward(): Promise<void> {
    const { back, forward, doc } = this.#state;
    const [to, ...rest] = forward;
    if (to === undefined) return;
    this.#set({ forward: rest, back: doc ? [...back, doc.path] : back });
    await this.#go(to);
  }

  close(): void {
    this.#reading?.abort();
    this.#set({ doc: undefined, back: [], forward: [] });
  }

  /** Reads the open file again. */
  async reread(): Promise<void> {
    const { space, doc } = this.#state;
    if (!space || !doc) return;
    this.#reading?.abort();
    const stop = (this.#reading = new AbortController());
    const still = () => !stop.signal.aborted && this.#state.doc?.path === doc.path && this.#state.space === space;
    const put = (part: Partial<Doc>) => {
      if (still() && this.#state.doc) this.#set({ doc: { ...this.#state.doc, ...part } });
    };
    try {
      const file = await this.#at.read(space, doc.path, undefined, stop.signal);
      const { file: before, state } = this.#state.doc ?? {};
      // The same version keeps its object, and the parts of it that were read since.
      if (still() && !(state === "read" && before?.version === file.version)) put({ state: "read", file });
      if (still()) this.#renamed(doc.path, file.path);
    } catch (cause) {
      const error = toApiError(cause);
      put(error.code === "not_found" ? { state: "missing" } : { state: "failed", error });
    }
  }

  /** The server says a path in its own way, such as in the form of letters that the file system has. */
  #renamed(asked: string, path: string): void {
    const { doc } = this.#state;
    if (doc && asked !== path && doc.path === asked) this.#set({ doc: { ...doc, path }, at: path });
  }

  /** Reads the next part of a long file. */
  async readOn(): Promise<void> {
    const { space, doc } = this.#state;
    const file = doc?.file;
    if (!space || !doc || !file?.next_line) return;
    const next = await this.#at.read(space, doc.path, file.next_line);
    const now = this.#state.doc;
    if (now?.path !== doc.path || now.file !== file) return;
    if (next.version !== file.version) {
      await this.reread();
      return;
    }
    const { next_line: _gone, ...rest } = file;
    this.#set({ doc: { ...now, file: { ...rest, text: (file.text ?? "") + (next.text ?? ""), ...(next.next_line && { next_line: next.next_line }), ...((file.cut || next.cut) && { cut: true }) } } });
  }

  // Drafts.

  draft(path: string): Draft | undefined {
    const { space, drafts } = this.#state;
    return space && drafts.get(draftKey(space, path));
  }

  #draft(space: Space, path: string, d: Draft | undefined): void {
    const drafts = new Map(this.#state.drafts);
    if (d) drafts.set(draftKey(space, path), d);
    else drafts.delete(draftKey(space, path));
    this.#set({ drafts });
  }

  /** Begins to edit the open file, or one that is not there yet. */
  edit(): void {
    const { space, doc } = this.#state;
    if (!space || !doc || this.draft(doc.path)) return;
    const { file, state } = doc;
    if (state === "missing") this.#draft(space, doc.path, { text: "", base: { text: "", version: undefined }, saving: false });
    else if (file?.text !== undefined && !file.next_line && !file.cut) this.#draft(space, doc.path, { text: file.text, base: { text: file.text, version: file.version }, saving: false });
  }

  type(text: string): void {
    const { space, doc } = this.#state;
    const d = doc && this.draft(doc.path);
    if (space && doc && d && d.text !== text) this.#draft(space, doc.path, { ...d, text });
  }

  /** Gives up what was typed. */
  discard(): void {
    const { space, doc } = this.#state;
    if (space && doc) this.#draft(space, doc.path, undefined);
  }

  /** Saves what was typed; with a version, over the file that has it. Returns whether it is saved. */
  async save(over?: { version: string | undefined }): Promise<boolean> {
    const { space, doc } = this.#state;
    const d = doc && this.draft(doc.path);
    if (!space || !doc || !d || d.saving) return false;
    const { path } = doc;
    const { text } = d;
    const { error: _e, conflict: _c, ...rest } = d;
    this.#draft(space, path, { ...rest, saving: true });
    const now = () => this.#state.drafts.get(draftKey(space, path));
    const after = (part: Partial<Draft>) => {
      const have = now();
      if (have) this.#draft(space, path, { ...have, saving: false, ...part });
    };
    try {
      const info = await this.#at.write(space, path, text, over ? over.version : d.base.version);
      after({ base: { text, version: info.version } }); // what was typed meanwhile stays
      if (this.#state.doc?.path === path && this.#state.space === space) {
        const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
        this.#set({ doc: { ...this.#state.doc, state: "read", file: { ...info, path, text, line: 1, lines } } });
      }
      this.touched([path]);
      return true;
    } catch (cause) {
      const error = toApiError(cause);
      if (error.code === "conflict") after({ conflict: { file: await this.#current(space, path) } });
      else after({ error });
      return false;
    }
  }

  async #current(space: Space, path: string): Promise<FileContent | undefined> {
    try {
      return await this.#at.read(space, path);
    } catch {
      return undefined;
    }
  }

  /** Ends a conflict: both texts together, theirs, or mine over theirs. */
  async settle(way: "merge" | "mine" | "theirs"): Promise<void> {
    const { space, doc } = this.#state;
    const d = doc && this.draft(doc.path);
    if (!space || !doc || !d?.conflict) return;
    const { file } = d.conflict;
    if (way === "mine") {
      await this.save({ version: file?.version });
      return;
    }
    const text = way === "merge" ? (await import("./merge.ts")).merged(d, file) : (file?.text ?? "");
    if (text === undefined || this.draft(doc.path) !== d) return;
    const { conflict: _c, ...rest } = d;
    this.#draft(space, doc.path, { ...rest, text, base: { text: file?.text ?? "", version: file?.version } });
    if (file) this.#set({ doc: { ...doc, state: "read", file } });
  }

  /** Saves what was typed beside the file, under a free name. Returns its path. */
  async saveCopy(): Promise<string | undefined> {
    const { space, doc } = this.#state;
    const d = doc && this.draft(doc.path);
    if (!space || !doc || !d) return undefined;
    for (let n = 1; n <= 20; n++) {
      const path = doc.path.replace(/(\.[^./]*)?$/, ` (mine${n > 1 ? ` ${n}` : ""})$1`);
      try {
        await this.#at.write(space, path, d.text, undefined);
        this.#draft(space, doc.path, undefined);
        this.touched([path, doc.path]);
        return path;
      } catch (cause) {
        const error = toApiError(cause);
        if (error.code === "conflict") continue;
        this.#draft(space, doc.path, { ...d, error });
        return undefined;
      }
    }
    return undefined;
  }

  /** Gives the open file another path. Throws an ApiError. */
  async move(to: string): Promise<void> {
    const { space, doc } = this.#state;
    if (!space || !doc?.file) return;
    const from = doc.path;
    let info;
    try {
      info = await this.#at.move(space, from, to, doc.file.version);
    } catch (cause) {
      throw toApiError(cause);
    }
    const d = this.draft(from);
    if (d) {
      this.#draft(space, from, undefined);
      this.#draft(space, info.path, d);
    }
    this.touched([from, info.path]);
    await this.#go(info.path);
  }

  /** Deletes the open file. Throws an ApiError. */
  async remove(): Promise<void> {
    const { space, doc } = this.#state;
    if (!space || !doc?.file) return;
    try {
      await this.#at.remove(space, doc.path, doc.file.version);
    } catch (cause) {
      throw toApiError(cause);
    }
    this.#draft(space, doc.path, undefined);
    this.touched([doc.path]);
    this.close();
  }

  /** Files that were changed, by whomever: what is shown of them is read again. */
  touched(paths: readonly string[]): void {
    const { folders, doc, names } = this.#state;
    const lists = new Set<string>();
    for (const path of paths) {
      for (const f of ["", ...foldersOf(path)]) {
        const known = folders.get(f);
        const child = f === "" ? (path.split("/")[0] ?? "") : path.slice(0, path.indexOf("/", f.length + 1) < 0 ? undefined : path.indexOf("/", f.length + 1));
        if (known && (f === folderOf(path) || !known.entries.some((e) => e.path === child))) lists.add(f);
      }
    }
    for (const f of lists) void this.#list(f);
    if (doc && paths.includes(doc.path) && doc.state !== "reading") void this.reread();
    if (names && paths.some((p) => !names.all.includes(p))) {
      this.#naming = undefined;
      void this.name();
    }
  }

  /** Somebody comes back to the page: files may have changed meanwhile. */
  refresh(): void {
    if (this.#state.failed) void this.start();
    for (const f of ["", ...this.#state.open]) if (this.#state.folders.has(f)) void this.#list(f);
    if (this.#state.doc && this.#state.doc.state !== "reading") void this.reread();
  }

  /** Reads the names of all files. */
  name(): Promise<void> {
    this.#naming ??= this.#name();
    return this.#naming;
  }

  async #name(): Promise<void> {
    const { space } = this.#state;
    if (!space) return;
    const all: string[] = [];
    let next: string | undefined;
    try {
      for (let page = 0; page < namePages && (page === 0 || next !== undefined); page++) {
        const got = await this.#at.tree(space, "", { depth: 64, limit: 2000, ...(next !== undefined && { after: next }) });
        for (const e of got.entries ?? []) if (e.kind === "file") all.push(e.path);
        next = got.next;
      }
      if (this.#state.space === space) this.#set({ names: { all, complete: next === undefined } });
    } catch {
      this.#naming = undefined; // links are followed by their paths alone, and it is tried again with the next
    }
  }

  /** Whether something was typed that is not saved. */
  unsaved(): boolean {
    return [...this.#state.drafts.values()].some(isChanged);
  }
}
