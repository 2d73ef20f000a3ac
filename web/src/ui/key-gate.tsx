import { useEffect, useId, useRef, useState } from "react";
import { useStore } from "zustand";

import type { Keyring } from "../api/keyring.ts";
import { Button } from "./button.tsx";

/** Covers the page while the server waits for a key. Pending requests continue by themselves once there is one. */
export function KeyGate({ keyring }: { keyring: Keyring }) {
  const asked = useStore(keyring.store, (s) => s.asked);
  return asked ? <Gate keyring={keyring} /> : null;
}

function Gate({ keyring }: { keyring: Keyring }) {
  const refused = useStore(keyring.store, (s) => s.refused);
  const [key, setKey] = useState("");
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const d = dialog.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={`${id}-title`}
      onCancel={(e) => e.preventDefault()}
      className="m-auto w-[min(26rem,calc(100vw-2rem))] rounded-xl border border-border bg-bg p-5 text-text-primary backdrop:bg-black/60"
    >
      <form
        onSubmit={(e) => {
          e.preventDefault();
          keyring.unlock(key);
        }}
      >
        <h2 id={`${id}-title`} className="text-base font-semibold">
          This server asks for a key
        </h2>
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
          autoFocus
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
    </dialog>
  );
}
