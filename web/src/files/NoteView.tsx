import { use, useEffect, useMemo, useRef } from "react";

import { LakeContext } from "../lake/lake-context.ts";
import { facetOf } from "../lake/lake.ts";
import { DocContext } from "../ui/doc-links.ts";
import { Markdown } from "../ui/markdown.tsx";
import { oneLine, tame } from "../ui/tame.ts";
import { linksOf } from "./doc.tsx";
import { readNote, type Note } from "./frontmatter.ts";
import { slug } from "./links.ts";
import { useFiles } from "./use-files.ts";

/** A note: its properties, and its text with links to other notes and pictures of the workspace. */
export default function NoteView({ path, text, heading, wish }: { path: string; text: string; heading: string; wish: number }) {
  const files = useFiles();
  const note = useMemo(() => readNote(text), [text]);
  const links = useMemo(() => linksOf(path), [path]);
  const box = useRef<HTMLDivElement>(null);

  useEffect(() => void files.name(), [files, path]); // so that links know which notes there are
  useEffect(() => {
    if (heading === "") return;
    return whenThere(() => headingIn(box.current, heading), (h) => {
      h.tabIndex = -1;
      h.scrollIntoView({ block: "start" });
      h.focus({ preventScroll: true });
    });
  }, [heading, wish]);

  return (
    <div ref={box} className="mx-auto max-w-[46rem] px-5 pt-4 pb-16 leading-[1.65] wrap-anywhere">
      <Properties note={note} />
      <DocContext value={links}>
        <Markdown text={note.body} />
      </DocContext>
      {note.body.trim() === "" && <p className="text-text-muted">This note is empty.</p>}
    </div>
  );
}

function Properties({ note: n }: { note: Note }) {
  if (n.problem !== "") {
    return (
      <div className="mb-5 rounded-lg border border-border bg-surface px-3.5 py-2.5 text-sm">
        <p className="text-text-muted">The properties cannot be read: {tame(n.problem)}</p>
        <pre className="mt-1.5 overflow-x-auto font-mono text-xs leading-5" tabIndex={0} role="region" aria-label="Properties as they are written">{tame(n.raw)}</pre>
      </div>
    );
  }
  if (n.properties.length === 0) return null;
  return (
    <dl aria-label="Properties" className="mb-5 grid grid-cols-[minmax(5rem,auto)_minmax(0,1fr)] gap-x-4 gap-y-1.5 rounded-lg border border-border bg-surface px-3.5 py-2.5 text-sm leading-6">
      {n.properties.map((p) => (
        <div key={p.name} className="contents">
          <dt className="text-text-muted">{oneLine(p.name, 60)}</dt>
          <dd className="flex min-w-0 flex-wrap gap-1.5">
            {p.values.length === 0 && <span className="text-text-muted">–</span>}
            {p.values.map((v, i) => (
              <Value key={i} name={p.name} value={v} of={p.list} />
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A value of a property. In a lake, those that entities are told apart by lead to all that have it. */
function Value({ name, value, of }: { name: string; value: string; of: boolean }) {
  const shown = use(LakeContext);
  const facet = facetOf(name);
  const look = of ? "rounded-md bg-bubble px-2 text-[13px]" : "";
  if (!shown || !facet || value.trim() === "") return <span className={look}>{oneLine(value, of ? 120 : 500)}</span>;
  const one = facet === "tag" ? value.trim().replace(/^#/, "") : value.trim();
  return (
    <button type="button" title={`All entities with ${facet === "tag" ? "the tag" : `the ${facet}`} ${oneLine(one, 60)}`} onClick={() => (shown.lake.just(facet, one), shown.list())} className={`${look} reach text-left underline decoration-border underline-offset-2 hover:decoration-current`}>
      {oneLine(value, of ? 120 : 500)}
    </button>
  );
}

function headingIn(box: HTMLElement | null, heading: string): HTMLElement | undefined {
  return [...(box?.querySelectorAll<HTMLElement>("h1, h2, h3, h4, h5, h6") ?? [])].find((h) => slug(h.textContent ?? "") === slug(heading));
}

/** Waits for something to appear, for a few seconds: the text is drawn late. */
function whenThere<T>(find: () => T | undefined, then: (t: T) => void): () => void {
  let left = 60;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    const found = find();
    if (found !== undefined) then(found);
    else if (left-- > 0) timer = setTimeout(look, 50);
  };
  look();
  return () => clearTimeout(timer);
}
