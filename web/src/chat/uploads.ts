// Files on their way into a message: chosen, dropped or pasted, given to the session, and then sent. Runs
// without a browser.

import { toApiError, type ApiError } from "../api/client.ts";
import type { Attachment } from "../api/types.gen.ts";

/** As the server limits them. */
export const mostFiles = 10;
export const mostBytes = 20 << 20;

export interface Upload {
  key: number;
  name: string;
  size: number;
  state: "uploading" | "there" | "failed";
  /** How much of it has been sent, in whole percent; undefined until that is known. At 100 the server reads it. */
  percent?: number;
  /** Once it is there. */
  attachment?: Attachment;
  /** Why it failed. */
  error?: string;
  /** To try again; undefined if that would not help. */
  file?: File;
  /** An object URL of an image, for its thumbnail. */
  picture?: string;
}

export interface Uploads {
  list: readonly Upload[];
  /** What happened last, for screen readers. */
  says: string;
}

export const noUploads: Uploads = { list: [], says: "" };

/** The uploads of one session. */
export class UploadList {
  #uploads: Uploads = noUploads;
  #next = 1;
  readonly #stops = new Map<number, AbortController>();
  readonly #give: (file: File, signal: AbortSignal, sent: (bytes: number) => void) => Promise<Attachment>;
  readonly #changed: () => void;

  constructor(give: (file: File, signal: AbortSignal, sent: (bytes: number) => void) => Promise<Attachment>, changed: () => void) {
    this.#give = give;
    this.#changed = changed;
  }

  get now(): Uploads {
    return this.#uploads;
  }

  #set(list: readonly Upload[], says: string): void {
    this.#uploads = { list, says };
    this.#changed();
  }

  /** Adds files. Those beyond the limits are shown as failed, and not sent anywhere. */
  add(files: Iterable<File>, pictureOf: (file: File) => string | undefined = () => undefined): void {
    for (const file of files) {
      const { list } = this.#uploads;
      const name = file.name || "pasted file";
      const upload: Upload = { key: this.#next++, name, size: file.size, state: "uploading" };
      const refuse = (error: string) => this.#set([...list, { ...upload, state: "failed", error }], `${name} is not attached: ${error}`);
      if (list.filter((u) => u.state !== "failed").length >= mostFiles) refuse(`A message has at most ${mostFiles} files.`);
      else if (file.size > mostBytes) refuse(`It is larger than ${mostBytes >> 20} MB.`);
      else if (file.size === 0) refuse("It is empty, or a folder.");
      else {
        const picture = pictureOf(file);
        this.#set([...list, { ...upload, file, ...(picture && { picture }) }], `Uploading ${name}`);
        void this.#send(upload.key, file);
      }
    }
  }

  async #send(key: number, file: File): Promise<void> {
    const stop = new AbortController();
    this.#stops.set(key, stop);
    try {
      const attachment = await this.#give(file, stop.signal, (bytes) => this.#sent(key, bytes));
      if (stop.signal.aborted) return;
      const twice = this.#uploads.list.some((u) => u.key !== key && u.attachment?.id === attachment.id);
      if (twice) return this.#drop(key, `${attachment.name} is attached already`);
      this.#change(key, { state: "there", name: attachment.name, attachment }, attachment.unread ? `${attachment.name} is attached, but its text cannot be read: ${attachment.unread}` : `${attachment.name} is attached`);
    } catch (cause) {
      if (stop.signal.aborted) return;
      const error = toApiError(cause);
      this.#change(key, { state: "failed", error: whyOf(error), file }, `${file.name} is not attached: ${whyOf(error)}`);
    } finally {
      this.#stops.delete(key);
    }
  }

  /** Notes how much has been sent. Screen readers have it in the chip, and are not told of each percent. */
  #sent(key: number, bytes: number): void {
    const upload = this.#uploads.list.find((u) => u.key === key);
    const percent = Math.min(100, Math.floor((100 * bytes) / (upload?.size || 1)));
    if (upload?.state === "uploading" && upload.percent !== percent) this.#change(key, { percent }, this.#uploads.says);
  }

  #change(key: number, part: Partial<Upload>, says: string): void {
    this.#set(this.#uploads.list.map((u) => (u.key === key ? { ...u, ...part } : u)), says);
  }

  #drop(key: number, says: string): void {
    this.#set(this.#uploads.list.filter((u) => u.key !== key), says);
  }

  retry(key: number): void {
    const upload = this.#uploads.list.find((u) => u.key === key);
    if (!upload?.file || upload.state !== "failed") return;
    const { error: _, percent: __, ...rest } = upload;
    this.#set(this.#uploads.list.map((u) => (u.key === key ? { ...rest, state: "uploading" } : u)), `Uploading ${upload.name}`);
    void this.#send(key, upload.file);
  }

  remove(key: number): void {
    const name = this.#uploads.list.find((u) => u.key === key)?.name;
    this.#stops.get(key)?.abort();
    this.#drop(key, `${name ?? "The file"} is removed`);
  }

  /** What a message takes with it. The list is empty then. */
  take(): Attachment[] {
    const files = this.#uploads.list.flatMap((u) => u.attachment ?? []);
    this.#set([], "");
    return files;
  }

  /** Puts back what a message had. */
  put(files: readonly Attachment[]): void {
    const have = this.#uploads.list;
    const more = files.filter((f) => !have.some((u) => u.attachment?.id === f.id));
    if (more.length > 0) this.#set([...have, ...more.map((f): Upload => ({ key: this.#next++, name: f.name, size: f.size, state: "there", attachment: f }))], "");
  }
}

const whyOf = (e: ApiError): string => (e.code === "unreachable" ? "The server could not be reached." : `${e.message.charAt(0).toUpperCase()}${e.message.slice(1).replace(/\.$/, "")}.`);

/** Whether a message can go: nothing is under way. */
export const settled = (u: Uploads): boolean => u.list.every((x) => x.state !== "uploading");

/** A size for people. */
export function sizeText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} KB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
