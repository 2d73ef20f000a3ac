// Where a browser comes back to from a login at another service. The page hands in what that has
// put into its address, as the user whose key this browser has: so nobody can be made to log in
// for somebody else.

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import "../../styles/index.css";
import { baseOf, createClient, toApiError, type ApiError } from "../../api/client.ts";
import { createKeyring } from "../../api/keyring.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { Broken } from "../../ui/broken.tsx";
import { KeyGate } from "../../ui/key-gate.tsx";
import { sentence } from "../../ui/text.ts";
import { answerIn, doneText, otherAnswerIn, otherDoneText } from "./answer.ts";

const keyring = createKeyring();
const client = createClient(baseOf(location.href), keyring.fetch, keyring.locked);
const other = otherAnswerIn(location.search);
const answer = other ? undefined : answerIn(location.search);
history.replaceState(null, "", location.pathname); // so that the code is not visible any more
const finished = handedIn(); // once, however often the page renders

/** Hands in the answer, and resolves to what the page says then; undefined: there is none. */
function handedIn(): Promise<string> | undefined {
  if (other) return client.handIn(other.path).then(() => otherDoneText(other.service));
  return answer && client.finishLogin(answer).then(doneText);
}

function Login() {
  const [done, setDone] = useState<string>();
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    finished?.then(setDone, (cause: unknown) => setError(toApiError(cause)));
  }, []);
  return (
    <main className="mx-auto w-full max-w-[640px] px-5 py-[12vh]" aria-live="polite">
      <h1 className="text-2xl font-semibold tracking-tight">Login</h1>
      {!finished && <p className="mt-2">This page belongs to a login, and none is under way. Open the link in your conversation again.</p>}
      {finished && !done && !error && <p className="mt-2 text-text-muted">One moment…</p>}
      {done && (
        <p className="mt-2 wrap-anywhere">
          {done}
        </p>
      )}
      {error && (
        <div role="alert" className="mt-4 rounded-xl border border-danger/40 bg-danger-surface px-4 py-3 text-sm wrap-anywhere">
          {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
        </div>
      )}
    </main>
  );
}

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <Boundary fallback={<Broken what="The page" />}>
      <Login />
    </Boundary>
    <KeyGate keyring={keyring} />
  </StrictMode>,
);
