// What carries out the turns of a session, in words.

import type { AppInfo } from "../../api/client.ts";

export interface Runtime {
  /** As the server names it; "" is the app's. */
  value: string;
  name: string;
  hint: string;
  /** It cannot carry out a turn now, as the hint says. */
  missing: boolean;
}

const words: Readonly<Record<string, { name: string; hint: string }>> = {
  loop: { name: "Parley", hint: "Parley's own loop calls the model and the tools." },
  claude: { name: "Claude CLI", hint: "The Claude CLI on the server carries out the turns, with the same tools, rules and log." },
};

/** The name of a runtime for people. */
export const runtimeName = (runtime: string): string => words[runtime]?.name ?? runtime;

/** What carries out the turns of a session that names this runtime; "" where the server does not say. */
export const runtimeOf = (app: Pick<AppInfo, "runtime"> | undefined, own: string): string => own || (app?.runtime ?? "");

/** The runtimes that a session may choose, the app's own first; none where there is no choice. */
export function runtimesOf(app: Pick<AppInfo, "runtime" | "runtimes" | "runtimes_missing"> | undefined): Runtime[] {
  const own = app?.runtime ?? "";
  const others = [...new Set(app?.runtimes ?? [])].filter((r) => r !== own);
  if (own === "" || others.length === 0) return [];
  return [own, ...others].map((r) => {
    const why = app?.runtimes_missing?.[r];
    return { value: r === own ? "" : r, name: runtimeName(r), hint: why ? `Not now: ${why}.` : (words[r]?.hint ?? r), missing: why !== undefined };
  });
}
