import { useEffect, useState, type MouseEvent } from "react";

import { toApiError, type Client } from "../../api/client.ts";
import type { ArtifactRef } from "../../api/types.gen.ts";
import { Dialog } from "../../ui/dialog.tsx";
import { useActions } from "../use-chat.ts";

/**
 * The URL of a picture: at the server, or, if the server asks for a key (which img elements
 * cannot send), an object URL.
 */
export function useAddress(client: Client, id: string, failed: (cause: unknown) => void): string | undefined {
  const [fetched, setFetched] = useState<string>();
  const locked = client.locked();
  useEffect(() => {
    if (!locked) return;
    const stop = new AbortController();
    let revoke = () => undefined as void;
    client.fetched(id, stop.signal).then(
      (f) => {
        revoke = f.revoke;
        if (stop.signal.aborted) revoke();
        else setFetched(f.url);
      },
      (cause: unknown) => stop.signal.aborted || failed(cause),
    );
    return () => {
      stop.abort();
      revoke();
    };
    // failed is a new function at each rendering, but always the same.
  }, [client, id, locked]);
  return locked ? fetched : client.artifact(id);
}

/** Downloads an artifact that a link cannot reach, because the server asks for a key. */
export function fetchFirst(e: MouseEvent<HTMLAnchorElement>, client: Client, a: ArtifactRef): void {
  if (!client.locked()) return;
  e.preventDefault();
  void client.fetched(a.id).then(({ url, revoke }) => {
    const link = document.createElement("a");
    link.href = url;
    link.download = a.name;
    link.click();
    setTimeout(revoke, 60_000); // the browser reads it shortly after the click
  });
}

/** A picture. note explains it if it replaces something else. */
export function Picture({ artifact: a, note = "" }: { artifact: ArtifactRef; note?: string }) {
  const { client } = useActions();
  const [state, setState] = useState<"loading" | "there" | "gone">("loading");
  const [why, setWhy] = useState("");
  const gone = (cause: unknown) => {
    const e = toApiError(cause);
    setState("gone");
    setWhy(e.status === 404 || e.status === 410 ? "This picture is no longer stored." : "This picture could not be loaded.");
  };
  // An img element does not say why it failed; a request does.
  const failed = () => void client.fetched(a.id).then((f) => (f.revoke(), gone(undefined)), gone);
  const address = useAddress(client, a.id, gone);
  const [large, setLarge] = useState(false);
  const alt = `Plot: ${a.name}`;
  return (
    <figure className="overflow-hidden rounded-xl border border-border">
      {state === "gone" ? (
        <p className="px-3.5 py-3 text-sm text-text-muted">{why}</p>
      ) : (
        <button type="button" aria-label={`Enlarge ${a.name}`} onClick={() => setLarge(true)} className="block w-full cursor-zoom-in bg-white -outline-offset-2">
          {/* Before it is there it takes about the room that it will need. */}
          <img
            src={address}
            alt={alt}
            loading="lazy"
            onLoad={() => setState("there")}
            onError={failed}
            className={`w-full object-contain ${state === "there" ? "max-h-[30rem]" : "aspect-[5/2]"}`}
          />
        </button>
      )}
      {large && (
        <Dialog wide title={a.name} onClose={() => setLarge(false)}>
          <div className="overflow-x-auto rounded-lg bg-white">
            <img src={address} alt={alt} className="mx-auto max-w-none" />
          </div>
        </Dialog>
      )}
      <figcaption className="flex items-center justify-between gap-3 border-t border-border bg-surface px-3.5 py-1.5 text-xs text-text-muted">
        <span className="min-w-0 wrap-anywhere">{note || a.name}</span>
        <Download artifact={a} text="Download" />
      </figcaption>
    </figure>
  );
}

/** A download link for an artifact. */
export function Download({ artifact: a, text }: { artifact: ArtifactRef; text: string }) {
  const { client } = useActions();
  return (
    <a
      href={client.artifact(a.id)}
      download={a.name}
      aria-label={`Download ${text}: ${a.name}`}
      onClick={(e) => fetchFirst(e, client, a)}
      className="inline-flex min-h-8 shrink-0 items-center underline underline-offset-2 hover:text-text-primary [@media(pointer:coarse)]:min-h-11 [@media(pointer:coarse)]:min-w-11"
    >
      {text}
    </a>
  );
}
