import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import "../../styles/index.css";
import { baseOf, createClient, toApiError, type ApiError, type AppInfo, type ServerInfo } from "../../api/client.ts";
import { createKeyring } from "../../api/keyring.ts";
import { AppLogo, pageOf } from "../../chat/AppLogo.tsx";
import { Button } from "../../ui/button.tsx";
import { Chevron } from "../../ui/icons.tsx";
import { Boundary } from "../../ui/boundary.tsx";
import { Broken } from "../../ui/broken.tsx";
import { KeyGate } from "../../ui/key-gate.tsx";
import { sentence } from "../../ui/text.ts";
import { ThemeMenu } from "../../ui/theme-menu.tsx";

const base = baseOf(location.href);
const keyring = createKeyring();
const client = createClient(base, keyring.fetch, keyring.locked);

/** The apps of this server. If there is only one, it opens at once. */
function Chooser() {
  const [apps, setApps] = useState<AppInfo[]>();
  const [off, setOff] = useState<ServerInfo["off"]>([]);
  const [error, setError] = useState<ApiError>();
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    client.apps(stop.signal).then(
      (found) => {
        const only = found.length === 1 ? found[0] : undefined;
        if (only) location.replace(pageOf(only, base));
        else setApps(found);
      },
      (cause: unknown) => stop.signal.aborted || setError(toApiError(cause)),
    );
    client.server(stop.signal).then((s) => setOff(s.off), () => undefined); // the apps that are on are listed all the same
    return () => stop.abort();
  }, [attempt]);
  return (
    <div className="h-full overflow-y-auto">
      <div className="fixed top-3 right-3">
        <ThemeMenu />
      </div>
      <main className="mx-auto w-full max-w-[640px] px-5 py-[12vh]">
        <h1 className="text-2xl font-semibold tracking-tight">Parley</h1>
        <p className="mt-1 text-text-muted">The apps of this server.</p>
        {error && (
          <div role="alert" className="mt-6 rounded-xl border border-danger/40 bg-danger-surface px-4 py-3 text-sm">
            <p>
              {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
            </p>
            <Button
              kind="quiet"
              className="mt-3"
              onClick={() => {
                setError(undefined);
                setAttempt((n) => n + 1);
              }}
            >
              Try again
            </Button>
          </div>
        )}
        {apps?.length === 0 && <p className="mt-6 text-text-muted">No app is switched on.</p>}
        <ul className="mt-6 grid gap-2">
          {apps?.map((app) => (
            <li key={app.name}>
              <a
                href={pageOf(app, base)}
                className="flex items-center gap-3 rounded-xl border border-border bg-surface px-4 py-3.5 transition-colors hover:border-accent/60 hover:bg-hover"
              >
                <AppLogo app={app} base={base} size={36} />
                <span className="min-w-0 flex-1 wrap-anywhere">
                  <span dir="auto" className="block font-medium">{app.title || app.name}</span>
                  {app.description && <span dir="auto" className="line-clamp-6 text-sm text-text-muted">{app.description}</span>}
                </span>
                <span className="text-text-muted">
                  <Chevron />
                </span>
              </a>
            </li>
          ))}
        </ul>
        {apps && off.length > 0 && (
          <section aria-label="Apps that are off" className="mt-8 text-sm text-text-muted">
            <h2 className="font-medium">Not served here</h2>
            <ul className="mt-1 grid gap-1">
              {off.map((o) => (
                <li key={o.app} className="wrap-anywhere">
                  <span className="text-text-primary">{o.app}</span> {sentence(o.why)}
                </li>
              ))}
            </ul>
          </section>
        )}
      </main>
    </div>
  );
}

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <Boundary fallback={<Broken what="The page" />}>
      <Chooser />
    </Boundary>
    <KeyGate keyring={keyring} />
  </StrictMode>,
);
