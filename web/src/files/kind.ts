// How a file is shown. What the server found in its content decides, then its name.

import { languageOf } from "../ui/code/languages.ts";

export type Kind = "markdown" | "code" | "table" | "notebook" | "picture" | "pdf" | "sound" | "film" | "other";

/** Larger ones are only downloads, in bytes. */
export const largest: Readonly<Partial<Record<Kind, number>>> = { picture: 20 << 20, pdf: 40 << 20, sound: 60 << 20, film: 200 << 20 };

interface Shown {
  path: string;
  size: number;
  media_type: string;
  text?: string;
}

export function kindOf({ path, size, media_type, text }: Shown): Kind {
  const type = (media_type.split(";", 1)[0] ?? "").trim().toLowerCase();
  const kind: Kind = /^image\/(?:png|jpeg|gif|webp|avif|bmp|x-icon|vnd\.microsoft\.icon|svg\+xml)$/.test(type)
    ? "picture"
    : type === "application/pdf"
      ? "pdf"
      : type.startsWith("audio/")
        ? "sound"
        : type.startsWith("video/")
          ? "film"
          : text === undefined
            ? "other"
            : ofText(path);
  return size > (largest[kind] ?? Infinity) ? "other" : kind;
}

function ofText(path: string): Kind {
  const ending = /\.([^./]+)$/.exec(path.toLowerCase())?.[1];
  if (ending === "csv" || ending === "tsv") return "table";
  if (ending === "ipynb") return "notebook";
  return languageOf(path) === "markdown" ? "markdown" : "code";
}

/** Whether it is shown in another way than as its text, so that there is a choice. */
export const hasView = (kind: Kind): boolean => kind === "markdown" || kind === "table" || kind === "notebook";
