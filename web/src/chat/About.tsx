import { useEffect, useState, type ReactNode } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

import { toApiError, type ApiError, type Usage } from "../api/client.ts";
import type { SessionInfo } from "../api/types.gen.ts";
import { Dialog } from "../ui/dialog.tsx";
import { count, dollars, sentence } from "../ui/text.ts";
import { AppLogo } from "./AppLogo.tsx";
import { modelsOf, partsOf } from "./facts.ts";
import { runtimeName, runtimeOf, runtimesOf } from "./settings/runtimes.ts";
import { useActions, useChat } from "./use-chat.ts";

const shown = createStore(() => ({ open: false }));

export const showAbout = (): void => shown.setState({ open: true });

/** What the app is, what it may do, and what it cost; while somebody wants to know. */
export function About() {
  const open = useStore(shown, (s) => s.open);
  return open ? <Window /> : null;
}

const effects = { read: "reads", idempotent: "changes, and may be repeated", write: "changes" } as const;

function Window() {
  const chat = useActions();
  const app = useChat((s) => s.app);
  const model = useChat((s) => s.opened.records.model);
  const runtime = useChat((s) => runtimeOf(s.app, s.opened.records.runtime));
  const used = app ? modelsOf(app, model) : [];
  return (
    <Dialog title="About this app" onClose={() => shown.setState({ open: false })}>
      {app && (
        <div className="flex flex-col gap-6 text-sm">
          <div className="flex items-start gap-3.5">
            <AppLogo app={app} base={chat.client.base} size={44} />
            <div className="min-w-0">
              <h3 dir="auto" className="text-base font-semibold wrap-anywhere">
                {app.title || app.name}
              </h3>
              {app.description && (
                <p dir="auto" className="wrap-anywhere text-text-muted">
                  {app.description}
                </p>
              )}
            </div>
          </div>
          <Spent />
          <Part title={used.length === 1 ? "Model" : "Models"}>
            <ul className="grid gap-1">
              {used.map((u) => (
                <li key={u.model} className="wrap-anywhere">
                  <ModelName model={u.model} />
                  {u.agents && <span className="text-text-muted">, for {u.agents.join(", ")}</span>}
                </li>
              ))}
            </ul>
            {app.model.scripted && !model && <p className="mt-1 text-text-muted">It follows the rules of a script. No language model is asked.</p>}
            {app.fixed_model && <p className="mt-1 text-text-muted">It cannot be changed in a conversation.</p>}
          </Part>
          {runtime !== "" && (
            <Part title="Runtime">
              <p className="wrap-anywhere">{runtimeName(runtime)}</p>
              {runtimesOf(app).length > 0 && <p className="mt-1 text-text-muted">It can be changed between two messages, below the message box.</p>}
            </Part>
          )}
          {(app.agents?.length ?? 0) > 0 && (
            <Part title="Agents">
              <ul className="grid gap-1.5">
                {app.agents?.map((a) => (
                  <li key={a.name} className="wrap-anywhere">
                    <span className="font-medium">{a.name}</span> {a.description && <span className="text-text-muted">{a.description}</span>}
                  </li>
                ))}
              </ul>
            </Part>
          )}
          {(app.tools?.length ?? 0) > 0 && (
            <Part title="Tools">
              <ul className="grid gap-1.5">
                {app.tools?.map((t) => (
                  <li key={t.name} className="wrap-anywhere">
                    <code className="font-mono text-[13px]">{t.name}</code> <span className={t.effect === "read" ? "text-text-muted" : "text-link"}>{effects[t.effect]}</span>
                    {t.description && <span className="line-clamp-2 text-text-muted">{t.description}</span>}
                  </li>
                ))}
              </ul>
            </Part>
          )}
        </div>
      )}
    </Dialog>
  );
}

function ModelName({ model }: { model: string }) {
  const { name, provider } = partsOf(model);
  return (
    <>
      {name} {provider && <span className="text-text-muted">· {provider}</span>}
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-1.5 text-xs font-semibold tracking-wide text-text-muted uppercase">{title}</h3>
      {children}
    </section>
  );
}

/** What this conversation used, and all of the user's today. */
function Spent() {
  const { client } = useActions();
  const server = useChat((s) => s.known[s.opened.id]?.server);
  const [session, setSession] = useState<SessionInfo>();
  const [today, setToday] = useState<Usage>();
  const [error, setError] = useState<ApiError>();
  useEffect(() => {
    const stop = new AbortController();
    const failed = (cause: unknown) => stop.signal.aborted || setError(toApiError(cause));
    if (server) client.session(server, stop.signal).then(setSession, failed);
    client.usage(stop.signal).then(setToday, failed);
    return () => stop.abort();
  }, [client, server]);
  const u = session?.totals.usage;
  return (
    <Part title="Usage">
      {error && <p className="text-text-muted">It cannot be read now. {sentence(error.message)}</p>}
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1 tabular-nums max-sm:grid-cols-1 max-sm:gap-y-0 max-sm:[&_dd]:mb-1.5">
        {session && u && (
          <>
            <dt className="text-text-muted">This conversation</dt>
            <dd>
              {[
                plural(session.totals.turns, "turn"),
                plural(session.totals.tool_calls, "tool call"),
                `${count(tokensOf(u))} tokens`,
                dollars(u.usd ?? 0),
              ].join(" · ")}
            </dd>
          </>
        )}
        {today && (
          <>
            <dt className="text-text-muted">All your conversations today</dt>
            <dd>
              {dollars(today.usd)}
              {today.quota_usd ? ` of ${dollars(today.quota_usd)}` : ""}
            </dd>
            {today.days.map((d) => (
              <div key={d.model} className="col-span-full grid grid-cols-subgrid text-xs text-text-muted">
                <dt className="pl-3 wrap-anywhere max-sm:pl-0"><ModelName model={d.model} /></dt>
                <dd>
                  {plural(d.calls, "call")} · {count(tokensOf(d.usage))} tokens · {dollars(d.usage.usd ?? 0)}
                </dd>
              </div>
            ))}
          </>
        )}
      </dl>
    </Part>
  );
}

const tokensOf = (u: { input_tokens: number; output_tokens: number; cache_read_tokens?: number; cache_write_tokens?: number }): number =>
  u.input_tokens + u.output_tokens + (u.cache_read_tokens ?? 0) + (u.cache_write_tokens ?? 0);

const plural = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
