// What acts as a person at this server: browsers, keys and devices. Each can be ended here.

import { StrictMode, useCallback, useEffect, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";

import "../../styles/index.css";
import { baseOf, createClient, toApiError, type ApiError, type Me, type OwnDevice, type OwnKey, type OwnSignIn } from "../../api/client.ts";
import { createKeyring } from "../../api/keyring.ts";
import { leave } from "../../push/push.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { Broken } from "../../ui/broken.tsx";
import { Button } from "../../ui/button.tsx";
import { Confirm } from "../../ui/confirm.tsx";
import { KeyGate } from "../../ui/key-gate.tsx";
import { ago, sentence } from "../../ui/text.ts";
import { ThemeMenu } from "../../ui/theme-menu.tsx";
import { useNow } from "../../ui/use-now.ts";
import { browserName, deviceKinds, mayDo, shortName } from "./names.ts";
import { Schedules } from "./schedules.tsx";

const base = baseOf(location.href);
const keyring = createKeyring();
const client = createClient(base, keyring.fetch, keyring.locked);

interface Ways {
  me: Me;
  signIns: OwnSignIn[];
  keys: OwnKey[];
  devices: OwnDevice[] | undefined;
}

async function load(signal: AbortSignal): Promise<Ways> {
  const me = await client.me(signal);
  const [signIns, keys, devices] = await Promise.all([client.signIns(signal), client.keys(signal), client.devices(signal)]);
  return { me, signIns, keys, devices };
}

const how: Readonly<Record<Me["how"], string>> = {
  none: "This server asks nobody on this machine who they are.",
  ingress: "Home Assistant has logged you in.",
  key: "This page uses a key.",
  token: "This page uses a token.",
  signin: "You are signed in.",
};

interface Question {
  title: string;
  text: string;
  action: string;
  go(): Promise<void>;
}

function Account() {
  const [ways, setWays] = useState<Ways>();
  const [error, setError] = useState<ApiError>();
  const [attempt, setAttempt] = useState(0);
  const [asking, setAsking] = useState<Question>();
  const now = useNow(30_000);
  const again = useCallback(() => setAttempt((n) => n + 1), []);
  useEffect(() => {
    const stop = new AbortController();
    load(stop.signal).then(
      (found) => {
        setWays(found);
        setError(undefined);
      },
      (cause: unknown) => stop.signal.aborted || setError(toApiError(cause)),
    );
    return () => stop.abort();
  }, [attempt]);
  const doIt = (q: Question) => {
    setAsking(undefined);
    q.go().then(again, (cause: unknown) => setError(toApiError(cause)));
  };
  const signOut = async () => {
    await leave(client);
    const next = await client.signOut();
    location.assign(next || base);
  };
  return (
    <div className="h-full overflow-y-auto">
      <div className="fixed top-3 right-3">
        <ThemeMenu />
      </div>
      <main className="mx-auto w-full max-w-[680px] px-5 pt-[10vh] pb-16">
        <a href={base} className="text-sm text-text-muted underline-offset-4 hover:text-text-primary hover:underline">
          All apps
        </a>
        <h1 className="mt-3 text-2xl font-semibold tracking-tight">Your account</h1>
        {error && (
          <div role="alert" className="mt-5 rounded-xl border border-danger/40 bg-danger-surface px-4 py-3 text-sm wrap-anywhere">
            {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
            <div>
              <Button kind="quiet" className="mt-3" onClick={again}>
                Try again
              </Button>
            </div>
          </div>
        )}
        {!ways && !error && <p className="mt-5 text-text-muted">One moment…</p>}
        {ways && (
          <>
            <div className="mt-5 flex flex-wrap items-center justify-between gap-x-6 gap-y-3 rounded-xl border border-border bg-surface px-4 py-3.5">
              <div className="min-w-0">
                <p dir="auto" className="font-medium wrap-anywhere">
                  {ways.me.name || shortName(ways.me.user)}
                </p>
                <p className="text-sm wrap-anywhere text-text-muted">
                  {ways.me.name && <>{ways.me.user} · </>}
                  {ways.me.org && <>for {shortName(ways.me.org)} · </>}
                  {how[ways.me.how]}
                </p>
                {ways.me.by && <p className="text-sm wrap-anywhere text-text-muted">{ways.me.by} acts as this user.</p>}
              </div>
              {ways.me.how === "signin" && (
                <Button onClick={() => void signOut().catch((cause: unknown) => setError(toApiError(cause)))}>Sign out</Button>
              )}
            </div>
            {ways.signIns.length > 0 && (
              <Part title="Browsers that are signed in">
                {ways.signIns.map((s) => (
                  <Row
                    key={s.id}
                    name={browserName(s.browser)}
                    here={s.current && "This browser"}
                    about={`Used ${ago(s.used_at, now)} · since ${ago(s.created_at, now)}`}
                    action={s.current ? undefined : "Sign out"}
                    label={`Sign out ${browserName(s.browser)}`}
                    onAction={() =>
                      setAsking({
                        title: "Sign this browser out?",
                        text: `${browserName(s.browser)} loses its access at once. What is open there says so.`,
                        action: "Sign out",
                        go: () => client.endSignIn(s.id),
                      })
                    }
                  />
                ))}
              </Part>
            )}
            <Part title="Keys" none={ways.keys.length === 0 && "No key acts as you. The operator makes one with parley keys create."}>
              {ways.keys.map((k) => (
                <Row
                  key={k.name}
                  name={k.name}
                  here={k.current && "This page"}
                  about={[
                    k.begins && `${k.begins}…`,
                    k.app ? `for the page of ${k.app}` : mayDo(k.scopes),
                    k.used_at ? `used ${ago(k.used_at, now)}` : "not used yet",
                    k.expires_at && (Date.parse(k.expires_at) > now ? `until ${new Date(k.expires_at).toLocaleDateString()}` : "expired"),
                    !k.created_at && "of the settings",
                  ]
                    .filter(Boolean)
                    .join(" · ")}
                  action={k.created_at ? "Revoke" : undefined}
                  label={`Revoke ${k.name}`}
                  onAction={() =>
                    setAsking({
                      title: `Revoke the key ${k.name}?`,
                      text: `${k.current ? "This page uses it, and asks for another one then. " : ""}Programs that use it are refused at once.`,
                      action: "Revoke",
                      go: () => client.revokeKey(k.name),
                    })
                  }
                />
              ))}
            </Part>
            <Schedules client={client} base={base} now={now} />
            {ways.devices && (
              <Part title="Devices that are notified" none={ways.devices.length === 0 && "No device is notified."}>
                {ways.devices.map((d) => (
                  <Row
                    key={d.id}
                    name={d.name || deviceKinds[d.kind]}
                    about={[deviceKinds[d.kind], d.delivered_at ? `reached ${ago(d.delivered_at, now)}` : "not reached yet", d.last_error && "the last message did not arrive", d.dropped && `${d.dropped} dropped`].filter(Boolean).join(" · ")}
                    action="Remove"
                    label={`Remove ${d.name || deviceKinds[d.kind]}`}
                    onAction={() =>
                      setAsking({ title: "Remove this device?", text: "It is not notified any more.", action: "Remove", go: () => client.removeDevice(d.id) })
                    }
                  />
                ))}
              </Part>
            )}
          </>
        )}
      </main>
      {asking && (
        <Confirm title={asking.title} action={asking.action} onConfirm={() => doIt(asking)} onClose={() => setAsking(undefined)}>
          {asking.text}
        </Confirm>
      )}
    </div>
  );
}

function Part({ title, none, children }: { title: string; none?: string | false; children: ReactNode }) {
  return (
    <section aria-label={title} className="mt-8">
      <h2 className="text-sm font-medium">{title}</h2>
      {none ? <p className="mt-2 text-sm text-text-muted">{none}</p> : <ul className="mt-2 divide-y divide-border rounded-xl border border-border">{children}</ul>}
    </section>
  );
}

interface RowProps {
  name: string;
  here?: string | false;
  about: string;
  action: string | undefined;
  label: string;
  onAction(): void;
}

function Row({ name, here, about, action, label, onAction }: RowProps) {
  return (
    <li className="flex items-center gap-4 px-4 py-3">
      <div className="min-w-0 flex-1 wrap-anywhere">
        <p dir="auto" className="text-sm font-medium">
          {name}
          {here && <span className="ml-2 rounded-full border border-border px-2 py-0.5 text-xs font-normal text-text-muted">{here}</span>}
        </p>
        <p className="text-sm text-text-muted">{about}</p>
      </div>
      {action && (
        <Button kind="quiet" aria-label={label} onClick={onAction}>
          {action}
        </Button>
      )}
    </li>
  );
}

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <Boundary fallback={<Broken what="The page" />}>
      <Account />
    </Boundary>
    <KeyGate keyring={keyring} />
  </StrictMode>,
);
