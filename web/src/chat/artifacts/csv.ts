// Tables as programs write them (RFC 4180), within limits: what is beyond them is counted, not kept.

/** Rows and columns of a table that are kept, and characters of a cell. */
export const most = { rows: 1000, columns: 60, cell: 500 };

export interface Table {
  rows: string[][];
  /** The rows there are, with those that were not kept. */
  total: number;
  /** There are more columns, or longer cells. */
  cut: boolean;
}

export function readTable(text: string, separator = separatorOf(text)): Table {
  const t: Table = { rows: [], total: 0, cut: false };
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  const endCell = () => {
    if (row.length >= most.columns || cell.length > most.cell) t.cut = true;
    if (row.length < most.columns) row.push(cell.slice(0, most.cell));
    cell = "";
  };
  const endRow = () => {
    endCell();
    if (row.length === 1 && row[0] === "") {
      row = []; // an empty line is no row
      return;
    }
    t.total++;
    if (t.rows.length < most.rows) t.rows.push(row);
    row = [];
  };
  const from = text.charCodeAt(0) === 0xfeff ? 1 : 0;
  for (let i = from; i < text.length; i++) {
    const c = text[i] ?? "";
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') (cell += c), i++;
      else quoted = false;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator) endCell();
    else if (c === "\n") endRow();
    else if (c !== "\r" || text[i + 1] !== "\n") cell += c;
  }
  if (cell !== "" || row.length > 0) endRow();
  return t;
}

/** The separator that the first line has most of. */
function separatorOf(text: string): string {
  const line = text.slice(0, 4000).split("\n", 1)[0] ?? "";
  const times = (s: string) => line.split(s).length;
  return [",", ";", "\t"].reduce((best, s) => (times(s) > times(best) ? s : best));
}
