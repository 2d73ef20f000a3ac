// What begins turns at times for a person: the next run, what became of the last one, pause, and run now.

import { useCallback, useEffect, useState } from "react";

import { toApiError, type ApiError, type Client } from "../../api/client.ts";
import type { Schedule } from "../../api/types.gen.ts";
import { Button } from "../../ui/button.tsx";
import { ago, sentence, when } from "../../ui/text.ts";
import { became, inWords } from "./names.ts";

/** Nothing is shown on a server without schedules, and to a person without any there is a line. */
export function Schedules({ client, base, now }: { client: Client; base: string; now: number }) {
  const [list, setList] = useState<Schedule[]>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState("");
  const [attempt, setAttempt] = useState(0);
  const again = useCallback(() => setAttempt((n) => n + 1), []);
  // A run changes how things stand, so they are looked at again while the page is open.
  const minute = Math.floor(now / 30_000);
  useEffect(() => {
    const stop = new AbortController();
    client.schedules(stop.signal).then(
      (found) => setList(found),
      (cause: unknown) => stop.signal.aborted || setError(toApiError(cause)),
    );
    return () => stop.abort();
  }, [client, attempt, minute]);
  const doIt = (id: string, go: () => Promise<void>) => {
    setBusy(id);
    setError(undefined);
    go()
      .catch((cause: unknown) => setError(toApiError(cause)))
      .finally(() => {
        setBusy("");
        again();
      });
  };
  if (!list) return null;
  return (
    <section id="schedules" aria-label="Schedules" className="mt-8">
      <h2 className="text-sm font-medium">Schedules</h2>
      {error && (
        <p role="alert" className="mt-2 text-sm wrap-anywhere text-danger">
          {sentence(error.message)} {sentence(error.hint)}
        </p>
      )}
      {list.length === 0 ? (
        <p className="mt-2 text-sm text-text-muted">Nothing begins by itself. Make a schedule with parley schedule add.</p>
      ) : (
        <ul className="mt-2 divide-y divide-border rounded-xl border border-border">
          {list.map((s) => (
            <li key={s.id} className="px-4 py-3">
              <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
                <div className="min-w-0 flex-1 basis-64 wrap-anywhere">
                  <p dir="auto" className="text-sm font-medium">
                    {s.name}
                    <span className="ml-2 rounded-full border border-border px-2 py-0.5 text-xs font-normal text-text-muted">{s.app}</span>
                    {s.paused && <span className="ml-1.5 rounded-full border border-border px-2 py-0.5 text-xs font-normal text-text-muted">Paused</span>}
                  </p>
                  <p className="text-sm text-text-muted">
                    <span title={`${s.cron} · ${s.time_zone}`}>{inWords(s)}</span>
                    {s.next_at && <> · next {when(Date.parse(s.next_at), now)}</>}
                  </p>
                  {s.why && <p className="text-sm text-text-muted">{sentence(s.why)}</p>}
                  {s.last && (
                    <p className="mt-1 text-sm text-text-muted">
                      {became(s.last)} {ago(s.last.at, now)}
                      {s.last.session_id && (
                        <>
                          {" · "}
                          <a className="underline underline-offset-4 hover:text-text-primary" href={`${base}apps/${encodeURIComponent(s.app)}/#/${encodeURIComponent(s.last.session_id)}`}>
                            Open
                          </a>
                        </>
                      )}
                      {(s.last.says || s.last.reason) && (
                        <span dir="auto" className="mt-0.5 line-clamp-2 block">
                          {s.last.says || sentence(s.last.reason)}
                        </span>
                      )}
                    </p>
                  )}
                </div>
                <div className="flex gap-2">
                  <Button kind="quiet" busy={busy === s.id} aria-label={`Run ${s.name} now`} onClick={() => doIt(s.id, () => client.runSchedule(s.id))}>
                    Run now
                  </Button>
                  <Button kind="quiet" busy={busy === s.id} aria-label={`${s.paused ? "Go on with" : "Pause"} ${s.name}`} onClick={() => doIt(s.id, () => client.pauseSchedule(s.id, !s.paused))}>
                    {s.paused ? "Go on" : "Pause"}
                  </Button>
                </div>
              </div>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
