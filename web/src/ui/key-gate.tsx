import { useEffect, useId, useRef, useState } from "react";
import { useStore } from "zustand";

import { baseOf } from "../api/client.ts";
import type { Keyring } from "../api/keyring.ts";
import { failedIn, signInUrl, waysOf, type Way } from "../api/signin.ts";
import { Button } from "./button.tsx";

/** Covers the page while the server waits to know its user. Pending requests continue by themselves once there is a key. */
export function KeyGate({ keyring }: { keyring: Keyring }) {
  const asked = useStore(keyring.store, (s) => s.asked);
  return asked ? <Gate keyring={keyring} /> : null;
}

function Gate({ keyring }: { keyring: Keyring }) {
  const refused = useStore(keyring.store, (s) => s.refused);
  const ended = useStore(keyring.store, (s) => s.ended);
  const [ways, setWays] = useState<readonly Way[]>();
  const [failed] = useState(() => failedIn(location.hash));
  const dialog = useRef<HTMLDialogElement>(null);
  const first = useRef<HTMLAnchorElement>(null);
  const id = useId();
  const base = baseOf(location.href);
  useEffect(() => {
    const d = dialog.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    waysOf(base, stop.signal).then(setWays, () => stop.signal.aborted || setWays([]));
    if (failed !== "") history.replaceState(null, "", location.pathname + location.search);
    return () => stop.abort();
  }, [base, failed]);
  const some = (ways?.length ?? 0) > 0;
  useEffect(() => first.current?.focus(), [some]); // it comes after the dialog has opened
  return (
    <dialog
      ref={dialog}
      aria-labelledby={`${id}-title`}
      onCancel={(e) => e.preventDefault()}
      className="m-auto w-[min(26rem,calc(100vw-2rem))] rounded-xl border border-border bg-bg p-5 text-text-primary backdrop:bg-black/60"
    >
      <h2 id={`${id}-title`} className="text-base font-semibold">
        {some ? "Sign in" : "This server asks for a key"}
      </h2>
      {(failed !== "" || ended) && (
        <p role="alert" className="mt-3 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2 text-sm">
          {failed || "You were signed out. Your conversations are kept."}
        </p>
      )}
      {some && (
        <div className="mt-4 grid gap-2">
          {ways?.map((way, i) => (
            <a
              key={way.name}
              ref={i === 0 ? first : undefined}
              href={signInUrl(base, way, location.href)}
              className="flex h-11 items-center justify-center rounded-lg bg-accent px-4 text-sm font-medium text-on-accent hover:bg-accent-hover"
            >
              <span className="truncate">Continue with {way.title}</span>
            </a>
          ))}
        </div>
      )}
      {some && !refused ? (
        <details className="mt-4 text-sm">
          <summary className="cursor-pointer text-text-muted">Use a key instead</summary>
          <KeyForm keyring={keyring} id={id} />
        </details>
      ) : (
        ways && <KeyForm keyring={keyring} id={id} refused={refused} focus={!some} />
      )}
    </dialog>
  );
}

function KeyForm({ keyring, id, refused = false, focus = false }: { keyring: Keyring; id: string; refused?: boolean; focus?: boolean }) {
  const [key, setKey] = useState("");
  return (
    <form
      onSubmit={(e) => {
        e.preventDefault();
        keyring.unlock(key);
      }}
    >
      <p id={`${id}-help`} className="mt-1 text-sm text-text-muted">
        Its operator makes one with <code>parley keys create</code>. The page keeps it until this tab is closed.
      </p>
      {refused && (
        <p role="alert" className="mt-3 rounded-lg border border-danger/40 bg-danger-surface px-3 py-2 text-sm">
          This key is unknown or was revoked.
        </p>
      )}
      <label htmlFor={`${id}-key`} className="mt-4 block text-sm font-medium">
        Key
      </label>
      <input
        id={`${id}-key`}
        type="password"
        autoFocus={focus}
        autoComplete="off"
        spellCheck={false}
        required
        aria-describedby={`${id}-help`}
        value={key}
        onChange={(e) => setKey(e.target.value)}
        className="mt-1.5 h-10 w-full [@media(pointer:coarse)]:h-11 rounded-lg border border-border bg-surface px-3 font-mono text-sm"
      />
      <div className="mt-4 flex justify-end">
        <Button kind="accent" type="submit">
          Continue
        </Button>
      </div>
    </form>
  );
}
