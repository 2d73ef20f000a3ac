import type { ReactNode } from "react";

import type { DocLinks } from "../ui/doc-links.ts";
import { joined, linkTarget, wikisIn, wikiTarget, type Target } from "./links.ts";
import { useContent, useFiles, useFilesState } from "./use-files.ts";

const wikiHref = (note: string, heading: string): string => `wiki:${encodeURIComponent(note)}#${encodeURIComponent(heading)}`;

/** The links of a document of the workspace; from "" they are relative to the workspace, as in answers. */
export function linksOf(from: string): DocLinks {
  const target = (href: string, names: Parameters<typeof linkTarget>[2]): Target => {
    const wiki = /^wiki:([^#]*)#(.*)$/.exec(href);
    if (!wiki) return linkTarget(href, from, names);
    return wikiTarget({ note: decodeURIComponent(wiki[1] ?? ""), heading: decodeURIComponent(wiki[2] ?? "") }, from, names ?? { all: [], complete: false });
  };
  function Link({ href, children }: { href: string; children: ReactNode }) {
    const files = useFiles();
    const names = useFilesState((s) => s.names);
    const to = target(href, names);
    if (to.kind === "outside") return <span title="This leads out of the workspace">{children}</span>;
    const missing = to.kind === "missing" && names !== undefined;
    const follow = () => {
      if (to.kind === "heading") void files.show(from, to.heading);
      // The names may be there only now.
      else void files.name().then(() => {
        const now = target(href, files.store.getState().names);
        if ("path" in now) void files.show(now.path, now.heading);
      });
    };
    return (
      <span
        role="link"
        tabIndex={0}
        title={to.kind === "heading" ? to.heading : missing ? `${to.path} is not there yet` : to.path}
        className={`cursor-pointer rounded-xs underline underline-offset-2 ${missing ? "text-text-muted decoration-dotted" : "text-link"}`}
        onClick={follow}
        onKeyDown={(e) => {
          if (e.key !== "Enter") return;
          e.preventDefault();
          follow();
        }}
      >
        {children}
        {missing && <span className="sr-only"> (not there yet)</span>}
      </span>
    );
  }
  function Picture({ src, alt }: { src: string; alt: string }) {
    const names = useFilesState((s) => s.names);
    const to = target(src, names);
    if (to.kind === "file" && /\.(?:png|jpe?g|gif|webp|avif|bmp|ico|svg)$/i.test(to.path)) return <Inline path={to.path} alt={alt} />;
    if (names === undefined && src.startsWith("wiki:")) return <span className="text-text-muted">{alt}</span>;
    return <Link href={src}>{alt || joined("", to.kind === "heading" ? to.heading : "path" in to ? to.path : "") || "file"}</Link>;
  }
  return {
    found: (text) => wikisIn(text).map((w) => ({ from: w.from, to: w.to, href: wikiHref(w.note, w.heading), words: w.words, embedded: w.embedded })),
    Link,
    Picture,
  };
}

function Inline({ path, alt }: { path: string; alt: string }) {
  const got = useContent(path);
  if (got === undefined) return <span className="inline-block h-24 w-40 animate-pulse-soft rounded-lg bg-surface" />;
  if (got instanceof Error) return <span className="text-text-muted">{`${alt || path} cannot be shown.`}</span>;
  return <img src={got.url} alt={alt || path} className="my-2 max-h-[32rem] max-w-full rounded-lg bg-white" />;
}
