// How an artifact is shown. Its media type decides, because the tool has set it; the name is only displayed.

import type { ArtifactRef } from "../../api/types.gen.ts";

export type Kind = "picture" | "table" | "page" | "pdf" | "text" | "file";

/** Larger ones are only downloads, in bytes. */
export const largest: Readonly<Record<Kind, number>> = { picture: 8 << 20, table: 1 << 20, page: 1 << 20, pdf: 16 << 20, text: 256 << 10, file: 0 };

export function kindOf(a: Pick<ArtifactRef, "media_type" | "size">): Kind {
  const kind = ofType((a.media_type.split(";", 1)[0] ?? "").trim().toLowerCase());
  return a.size > largest[kind] ? "file" : kind;
}

function ofType(type: string): Kind {
  // A drawing (SVG) is shown as a picture, too: in an img element it runs and loads nothing.
  if (/^image\/(png|jpeg|gif|webp|avif|svg\+xml)$/.test(type)) return "picture";
  if (type === "text/csv" || type === "text/tab-separated-values") return "table";
  if (type === "text/html") return "page";
  if (type === "application/pdf") return "pdf";
  if (/^text\/(plain|markdown|x-[\w.-]+)$/.test(type) || /^application\/(json|x-ndjson|yaml|xml|[\w.-]+\+(json|xml))$/.test(type)) return "text";
  return "file";
}
