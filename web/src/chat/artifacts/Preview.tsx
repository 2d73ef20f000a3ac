import { useEffect, useRef, useState, type ReactNode } from "react";

import { toApiError, type ApiError, type Client } from "../../api/client.ts";
import type { ArtifactRef } from "../../api/types.gen.ts";
import { Folded } from "../../ui/long-text.tsx";
import { sentence } from "../../ui/text.ts";
import { useActions } from "../use-chat.ts";
import { readTable } from "./csv.ts";
import type { Kind } from "./kind.ts";
import { Rows } from "./Rows.tsx";

/** What is in an artifact. It is read when it comes into view. */
export default function Preview({ artifact: a, kind }: { artifact: ArtifactRef; kind: Kind }) {
  const { client } = useActions();
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const near = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && setSeen(true), { rootMargin: "400px" });
    if (box.current) near.observe(box.current);
    return () => near.disconnect();
  }, []);
  return (
    <div ref={box} className={kind === "pdf" || kind === "page" ? "min-h-[28rem]" : "min-h-24"}>
      {seen && (kind === "pdf" ? <Pdf client={client} artifact={a} /> : kind === "page" ? <Page client={client} artifact={a} /> : <Text client={client} artifact={a} table={kind === "table"} />)}
    </div>
  );
}

/** Reads an artifact in a way, once. */
function useRead<T>(read: (signal: AbortSignal) => Promise<T>, id: string): T | ApiError | undefined {
  const [got, setGot] = useState<T | ApiError>();
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal).then(
      (t) => stop.signal.aborted || setGot(() => t),
      (cause: unknown) => stop.signal.aborted || setGot(toApiError(cause)),
    );
    return () => stop.abort();
    // read is a new function at each rendering, but always the same.
  }, [id]);
  return got;
}

interface Props {
  client: Client;
  artifact: ArtifactRef;
}

function Text({ client, artifact: a, table }: Props & { table: boolean }) {
  const got = useRead((signal) => client.text(a.id, signal), a.id);
  if (got === undefined) return null;
  if (got instanceof Error) return <Gone error={got} />;
  if (table) return <Rows table={readTable(got, a.media_type.startsWith("text/tab") ? "\t" : undefined)} name={a.name} />;
  return (
    <pre dir="auto" className="max-h-[28rem] overflow-auto px-3.5 py-3 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap" tabIndex={0} aria-label={a.name}>
      <Folded text={got} longest={4000} />
    </pre>
  );
}

/**
 * A page that a tool made. It runs nothing, loads nothing, and can neither lead the window anywhere
 * nor read anything: a sandbox without rights, under a policy of its own.
 */
function Page({ client, artifact: a }: Props) {
  const locked = client.locked(); // then a frame cannot send the key; its text is read here, and our policy takes its styles away
  const got = useRead((signal) => (locked ? client.text(a.id, signal) : Promise.resolve("")), a.id);
  if (got === undefined) return null;
  if (got instanceof Error) return <Gone error={got} />;
  return (
    <iframe
      sandbox=""
      referrerPolicy="no-referrer"
      title={a.name}
      {...(locked ? { srcDoc: got } : { src: `${client.artifact(a.id)}?inline=true` })}
      className="block h-[28rem] w-full bg-white"
    />
  );
}

/** A PDF in the browser's own viewer. The type of its address is ours, so it is nothing else. */
function Pdf({ client, artifact: a }: Props) {
  const [url, setUrl] = useState<string | ApiError>();
  useEffect(() => {
    const stop = new AbortController();
    let revoke = () => undefined as void;
    client.fetched(a.id, stop.signal, "application/pdf").then(
      (f) => {
        if (stop.signal.aborted) return f.revoke();
        revoke = f.revoke;
        setUrl(f.url);
      },
      (cause: unknown) => stop.signal.aborted || setUrl(toApiError(cause)),
    );
    return () => {
      stop.abort();
      revoke();
    };
  }, [client, a.id]);
  if (url === undefined) return null;
  if (url instanceof Error) return <Gone error={url} />;
  return <iframe title={a.name} src={url} className="block h-[28rem] w-full bg-white" />;
}

function Gone({ error }: { error: ApiError }): ReactNode {
  const gone = error.status === 404 || error.status === 410;
  return <p className="px-3.5 py-3 text-sm text-text-muted">{gone ? "It is no longer stored." : `It could not be loaded. ${sentence(error.message)} ${sentence(error.hint)}`}</p>;
}
