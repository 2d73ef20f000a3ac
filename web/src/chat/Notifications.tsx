import { useCallback, useEffect, useId, useState, type ReactNode } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

import { toApiError, type ApiError } from "../api/client.ts";
import type { Delivery, Device, Notify } from "../api/types.gen.ts";
import { disable, dropDelivery, enable, obstacle, ownDevice, readDead, readDevices, readNotify, remove, retryDelivery, saveNotify, testDevice, type Obstacle } from "../push/push.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { oneLine } from "../ui/tame.ts";
import { ago, sentence } from "../ui/text.ts";
import { useNow } from "../ui/use-now.ts";
import { useActions } from "./use-chat.ts";

const shown = createStore(() => ({ open: false }));

export const showNotifications = (): void => shown.setState({ open: true });

/** What tells the user when turns end or wait; while somebody looks at it. */
export function Notifications() {
  const open = useStore(shown, (s) => s.open);
  return open ? <Window /> : null;
}

const obstacles: Record<Obstacle, string> = {
  unsupported: "This browser cannot show notifications of pages that are closed.",
  insecure: "Browsers show notifications only of pages with https, or on the machine itself.",
  install: "First add this page to the home screen (Share, then Add to Home Screen), and open it from there.",
  denied: "Notifications of this page are blocked. Allow them in the browser’s settings of this page, and come back.",
};

function Window() {
  const { client } = useActions();
  const [devices, setDevices] = useState<Device[]>();
  const [notify, setNotify] = useState<Notify>();
  const [dead, setDead] = useState<Delivery[]>([]);
  const [error, setError] = useState<ApiError>();
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const own = ownDevice(client.base);
  const here = devices?.find((d) => d.id === own);
  const inTheWay = obstacle();

  const load = useCallback(async () => {
    const [list, wishes, lost] = await Promise.all([readDevices(client), readNotify(client), readDead(client)]);
    setDevices(list);
    setNotify(wishes);
    setDead(lost);
  }, [client]);
  /** Does what somebody clicked, and then shows how things are. */
  const act = async (what: () => Promise<unknown>, then = "") => {
    setBusy(true);
    setError(undefined);
    setSaid("");
    try {
      if ((await what()) !== false) setSaid(then);
      await load();
    } catch (cause) {
      setError(toApiError(cause));
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    load().catch((cause: unknown) => setError(toApiError(cause)));
  }, [load]);

  return (
    <Dialog title="Notifications" onClose={() => shown.setState({ open: false })}>
      <div className="flex flex-col gap-7 text-sm">
        {error && (
          <p role="alert" className="rounded-lg border border-danger/40 bg-danger-surface px-3 py-2">
            {sentence(error.message)} <span className="text-text-muted">{sentence(error.hint)}</span>
          </p>
        )}
        <p role="status" className={said === "" ? "sr-only" : "rounded-lg border border-border bg-surface px-3 py-2"}>
          {said}
        </p>
        <Part title="This browser">
          {devices && !here && inTheWay && <p className="text-text-muted">{obstacles[inTheWay]}</p>}
          {devices && !here && !inTheWay && (
            <>
              <p className="text-text-muted">You are told when a conversation waits for you or has an answer, also while this page is closed.</p>
              <Button kind="accent" busy={busy} className="mt-3" onClick={() => void act(async () => (await enable(client)) || false, "Notifications are on.")}>
                Turn on notifications
              </Button>
            </>
          )}
          {here && (
            <>
              <p className="text-text-muted">This browser is told. {health(here)}</p>
              <div className="mt-3 flex flex-wrap gap-2">
                <Button busy={busy} onClick={() => void act(() => testDevice(client, here.id), "A test is on its way.")}>
                  Send a test
                </Button>
                <Button busy={busy} onClick={() => void act(() => disable(client), "Notifications are off in this browser.")}>
                  Turn off
                </Button>
              </div>
            </>
          )}
        </Part>
        {notify && <Wishes key={JSON.stringify(notify)} notify={notify} busy={busy} onSave={(n) => void act(() => saveNotify(client, n), "Saved.")} />}
        {devices && devices.some((d) => d.id !== own) && (
          <Part title="Your other devices">
            <ul className="flex flex-col divide-y divide-border">
              {devices
                .filter((d) => d.id !== own)
                .map((d) => (
                  <li key={d.id} className="flex items-center gap-3 py-2">
                    <span className="min-w-0 flex-1">
                      <span className="block truncate font-medium">{oneLine(d.name, 80)}</span>
                      <span className="block truncate text-xs text-text-muted">
                        {kinds[d.kind]}
                        {d.kind === "webhook" && d.url ? ` · ${new URL(d.url).host}` : ""} · {health(d)}
                      </span>
                    </span>
                    <Button kind="quiet" busy={busy} onClick={() => void act(() => remove(client, d.id), "It was removed.")} aria-label={`Remove ${d.name}`}>
                      Remove
                    </Button>
                  </li>
                ))}
            </ul>
          </Part>
        )}
        {dead.length > 0 && <Dead list={dead} devices={devices ?? []} busy={busy} onRetry={(id) => void act(() => retryDelivery(client, id), "It is sent again.")} onDrop={(id) => void act(() => dropDelivery(client, id))} />}
      </div>
    </Dialog>
  );
}

const kinds = { webhook: "Program", webpush: "Browser", fcm: "Phone app" } as const;

function health(d: Device): string {
  if (d.paused) return d.last_error ? `Paused: ${d.last_error}.` : "Paused.";
  if (d.failures) return `Failing: ${d.last_error ?? ""}.`;
  const dropped = d.dropped ? ` ${d.dropped} ${d.dropped === 1 ? "message was" : "messages were"} dropped, because too much was waiting.` : "";
  return (d.delivered_at ? "It works." : "Nothing was sent yet.") + dropped;
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3 className="mb-1.5 font-semibold">{title}</h3>
      {children}
    </section>
  );
}

/** When to tell, on all devices that people look at. */
function Wishes({ notify, busy, onSave }: { notify: Notify; busy: boolean; onSave(n: Notify): void }) {
  const [now, setNow] = useState(notify);
  const set = (part: Partial<Notify>) => setNow({ ...now, ...part });
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const quiet = now.quiet;
  return (
    <Part title="When">
      <form
        className="flex flex-col gap-1"
        onSubmit={(e) => {
          e.preventDefault();
          onSave(now);
        }}
      >
        <Check label="A conversation waits for you" checked={now.waits} onChange={(waits) => set({ waits })} />
        <Check label="An answer is there" checked={now.ends} onChange={(ends) => set({ ends })} />
        {now.ends && (
          <Field label="but not within the first">
            {(id) => (
              <>
                <input id={id} type="number" min={0} max={86400} required value={now.after_seconds} onChange={(e) => set({ after_seconds: e.target.valueAsNumber || 0 })} className={`${input} w-22`} />
                seconds
              </>
            )}
          </Field>
        )}
        <Check
          label="Quiet hours"
          checked={quiet !== undefined}
          onChange={(yes) => {
            const { quiet: _, ...rest } = now;
            setNow(yes ? { ...rest, quiet: { from: "22:00", to: "07:00", time_zone: zone } } : rest);
          }}
        />
        {quiet && (
          <div className="flex flex-wrap items-center gap-x-4">
            <Field label="from">{(id) => <input id={id} type="time" required value={quiet.from} onChange={(e) => set({ quiet: { ...quiet, from: e.target.value } })} className={input} />}</Field>
            <Field label="to">{(id) => <input id={id} type="time" required value={quiet.to} onChange={(e) => set({ quiet: { ...quiet, to: e.target.value } })} className={input} />}</Field>
            <span className="pl-7 text-xs text-text-muted">{quiet.time_zone}</span>
          </div>
        )}
        <div className="mt-2">
          <Button type="submit" busy={busy} disabled={JSON.stringify(now) === JSON.stringify(notify)}>
            Save
          </Button>
        </div>
      </form>
    </Part>
  );
}

const input = "h-9 rounded-lg border border-border bg-surface px-2 tabular-nums [@media(pointer:coarse)]:h-11";

function Check({ label, checked, onChange }: { label: string; checked: boolean; onChange(yes: boolean): void }) {
  return (
    <label className="flex min-h-9 items-center gap-2.5 [@media(pointer:coarse)]:min-h-11">
      <input type="checkbox" checked={checked} onChange={(e) => onChange(e.target.checked)} className="size-4.5 accent-accent" />
      {label}
    </label>
  );
}

function Field({ label, children }: { label: string; children(id: string): ReactNode }) {
  const id = useId();
  return (
    <div className="flex items-center gap-2 py-0.5 pl-7">
      <label htmlFor={id} className="text-text-muted">
        {label}
      </label>
      {children(id)}
    </div>
  );
}

/** What was given up. */
function Dead({ list, devices, busy, onRetry, onDrop }: { list: readonly Delivery[]; devices: readonly Device[]; busy: boolean; onRetry(id: string): void; onDrop(id: string): void }) {
  const now = useNow(60_000);
  return (
    <Part title="Did not arrive">
      <ul className="flex flex-col divide-y divide-border">
        {list.map((d) => (
          <li key={d.id} className="flex flex-wrap items-center gap-x-3 gap-y-2 py-2">
            <span className="min-w-48 flex-1">
              <span className="block font-medium wrap-anywhere">{d.type}</span>
              <span className="block text-xs wrap-anywhere text-text-muted">
                {oneLine(devices.find((x) => x.id === d.device)?.name ?? "a removed device", 80)} · {ago(d.at, now)}
                {d.error ? ` · ${d.error}` : ""}
              </span>
            </span>
            <Button kind="quiet" busy={busy} onClick={() => onRetry(d.id)}>
              Send again
            </Button>
            <Button kind="quiet" busy={busy} onClick={() => onDrop(d.id)}>
              Drop
            </Button>
          </li>
        ))}
      </ul>
    </Part>
  );
}
