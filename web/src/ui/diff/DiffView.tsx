import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";

import { count } from "../text.ts";
import { beside, partsOf, type Diff, type Line } from "./diff.ts";

/** Rows that are drawn at first, and at most. */
const portion = 200;
const most = 4_000;

/** From this width of the view on, in pixels, the two texts have room beside each other. */
const roomy = 860;

interface Props {
  diff: Diff;
  /** What it is a change of, for screen readers. */
  name: string;
}

/** A change of a text: in one column, or with both texts beside each other where there is room. */
export default function DiffView({ diff, name }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const [wide, setWide] = useState(false);
  const [drawn, setDrawn] = useState(portion);
  useEffect(() => {
    const b = box.current;
    if (!b) return;
    const sized = new ResizeObserver(() => setWide(b.clientWidth >= roomy));
    sized.observe(b);
    return () => sized.disconnect();
  }, []);
  const both = wide && diff.added > 0 && diff.removed > 0;
  const rows = useMemo(() => (both ? besideRows(diff, drawn) : rowsOf(diff, drawn)), [diff, both, drawn]);
  const numbered = useMemo(() => diff.hunks.some((h) => h.lines.some((l) => l.before !== undefined || l.after !== undefined)), [diff]);
  const all = diff.hunks.reduce((sum, h) => sum + h.lines.length, 0);
  return (
    <div ref={box} data-diff={both ? "beside" : "unified"}>
      {rows.length === 0 ? (
        <p className="px-3.5 py-2.5 text-text-muted">Nothing differs.</p>
      ) : (
        <table className={`${numbered ? "" : "diff-bare"} diff w-full table-fixed border-collapse font-mono text-xs leading-5 text-text-primary`}>
          <caption className="sr-only">{`Changes of ${name}: ${lines(diff.added)} added, ${lines(diff.removed)} removed`}</caption>
          <colgroup>{both ? [0, 1, 2, 3].map((i) => <col key={i} className={i % 2 ? "" : numbered ? "w-12" : "w-2"} />) : [<col key="b" className={numbered ? "w-10 max-sm:w-0" : "w-0"} />, <col key="a" className={numbered ? "w-10" : "w-2"} />, <col key="t" />]}</colgroup>
          <tbody>{rows}</tbody>
        </table>
      )}
      {drawn < all && (
        <p className="border-t border-border px-3.5 py-1 font-sans text-xs text-text-muted">
          {drawn < most ? (
            <button type="button" onClick={() => setDrawn(most)} className="inline-flex min-h-8 items-center underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11">
              Show all {count(all)} lines
            </button>
          ) : (
            `The first ${count(most)} of ${count(all)} lines are shown.`
          )}
        </p>
      )}
    </div>
  );
}

const lines = (n: number): string => `${count(n)} ${n === 1 ? "line" : "lines"}`;

function rowsOf(diff: Diff, drawn: number): ReactNode[] {
  const rows: ReactNode[] = [];
  let left = drawn;
  diff.hunks.forEach((h, i) => {
    if (left <= 0) return;
    if (i > 0 || h.skipped > 0) rows.push(<Gap key={`g${i}`} skipped={h.skipped} columns={3} />);
    h.lines.slice(0, left).forEach((l, k) =>
      rows.push(
        <tr key={`${i}.${k}`} data-line={l.kind}>
          <Numbered n={l.before} kind={l.kind} hidden />
          <Numbered n={l.after} kind={l.kind} />
          <Text line={l} />
        </tr>,
      ),
    );
    left -= h.lines.length;
  });
  return rows;
}

function besideRows(diff: Diff, drawn: number): ReactNode[] {
  const rows: ReactNode[] = [];
  let left = drawn;
  diff.hunks.forEach((h, i) => {
    if (left <= 0) return;
    if (i > 0 || h.skipped > 0) rows.push(<Gap key={`g${i}`} skipped={h.skipped} columns={4} />);
    beside(h.lines)
      .slice(0, left)
      .forEach((r, k) =>
        rows.push(
          <tr key={`${i}.${k}`}>
            <Numbered n={r.left?.before} kind={r.left?.kind} />
            <Text line={r.left} />
            <Numbered n={r.right?.after} kind={r.right?.kind} />
            <Text line={r.right} />
          </tr>,
        ),
      );
    left -= h.lines.length;
  });
  return rows;
}

function Gap({ skipped, columns }: { skipped: number; columns: number }) {
  return (
    <tr>
      <td colSpan={columns} className="border-y border-border bg-surface px-3 text-[11px] text-text-muted select-none">
        {skipped > 0 ? `${lines(skipped)} not shown` : "…"}
      </td>
    </tr>
  );
}

/** A line's number, which is not copied with the text. hidden: not on a phone. */
function Numbered({ n, kind, hidden = false }: { n: number | undefined; kind: Line["kind"] | undefined; hidden?: boolean }) {
  return <td data-n={n} data-kind={kind} className={`diff-number ${hidden ? "max-sm:px-0! max-sm:text-[0px]" : ""}`} />;
}

const signs = { same: "", added: "added: ", removed: "removed: " } as const;

function Text({ line: l }: { line: Line | undefined }) {
  if (!l) return <td className="diff-nothing" />;
  return (
    <td data-kind={l.kind} className="diff-text">
      {l.kind !== "same" && <span className="sr-only">{signs[l.kind]}</span>}
      {partsOf(l).map((p, i) => (p.changed ? <mark key={i}>{p.text}</mark> : p.text))}
      {l.last && <span className="text-text-muted select-none"> (no line break at the end)</span>}
    </td>
  );
}
