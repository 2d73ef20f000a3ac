// Notebooks of Jupyter, format 4: their cells and outputs, within limits. Nothing in them runs, and HTML is not shown.

export interface Cell {
  kind: "markdown" | "code" | "raw";
  source: string;
  count: string;
  outputs: readonly Output[];
}

export type Output = { kind: "text"; text: string; error: boolean } | { kind: "picture"; type: string; data: string } | { kind: "hidden"; what: string };

export interface Notebook {
  language: string;
  cells: readonly Cell[];
  /** Cells that are left out. */
  more: number;
}

/** Cells that are shown, and characters of a picture. */
export const most = { cells: 400, picture: 8_000_000 } as const;

type Json = Readonly<Record<string, unknown>>;

const object = (v: unknown): Json => (typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Json) : {});
const list = (v: unknown): readonly unknown[] => (Array.isArray(v) ? v : []);
/** A text, which the format also has as a list of lines. */
const textIn = (v: unknown): string => (typeof v === "string" ? v : list(v).filter((l) => typeof l === "string").join(""));

/** Reads a notebook; undefined if it is none. */
export function readNotebook(text: string): Notebook | undefined {
  let book: Json;
  try {
    book = object(JSON.parse(text));
  } catch {
    return undefined;
  }
  if (!Array.isArray(book["cells"]) || Number(book["nbformat"]) < 4) return undefined;
  const meta = object(book["metadata"]);
  const language = textIn(object(meta["language_info"])["name"]) || textIn(object(meta["kernelspec"])["language"]) || "python";
  const cells = book["cells"].slice(0, most.cells).map((c) => cellOf(object(c)));
  return { language, cells, more: book["cells"].length - cells.length };
}

function cellOf(c: Json): Cell {
  const kind = c["cell_type"] === "markdown" ? "markdown" : c["cell_type"] === "code" ? "code" : "raw";
  const count = typeof c["execution_count"] === "number" ? String(c["execution_count"]) : "";
  return { kind, source: textIn(c["source"]), count, outputs: kind === "code" ? list(c["outputs"]).flatMap((o) => outputsOf(object(o))) : [] };
}

function outputsOf(o: Json): Output[] {
  switch (o["output_type"]) {
    case "stream":
      return [{ kind: "text", text: plain(textIn(o["text"])), error: o["name"] === "stderr" }];
    case "error": {
      const trace = list(o["traceback"]).filter((l) => typeof l === "string").join("\n");
      return [{ kind: "text", text: plain(trace || `${textIn(o["ename"])}: ${textIn(o["evalue"])}`), error: true }];
    }
    case "display_data":
    case "execute_result":
      return [richest(object(o["data"]))];
    default:
      return [];
  }
}

/** Of the forms in which a result is there, the best that can be shown. */
function richest(data: Json): Output {
  for (const type of ["image/png", "image/jpeg", "image/gif", "image/webp"]) {
    const picture = textIn(data[type]).replace(/\s+/g, "");
    if (picture !== "" && picture.length <= most.picture && /^[A-Za-z0-9+/]+=*$/.test(picture)) return { kind: "picture", type, data: picture };
  }
  for (const type of ["text/markdown", "text/plain", "application/json"]) {
    const value = data[type];
    const text = typeof value === "object" && value !== null && !Array.isArray(value) ? JSON.stringify(value, null, 2) : textIn(value);
    if (text !== "") return { kind: "text", text: plain(text), error: false };
  }
  return { kind: "hidden", what: Object.keys(data).slice(0, 4).join(", ") };
}

/** Without the codes that colour a terminal. */
const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "").replace(/\n$/, "");
