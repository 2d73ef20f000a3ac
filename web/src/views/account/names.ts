// What a browser is, as far as people recognise it from what it calls itself.

const programs: readonly (readonly [RegExp, string])[] = [
  [/Edg(?:A|iOS)?\//, "Edge"],
  [/OPR\//, "Opera"],
  [/(?:Firefox|FxiOS)\//, "Firefox"],
  [/(?:Chrome|CriOS|HeadlessChrome)\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const systems: readonly (readonly [RegExp, string])[] = [
  [/iPhone/, "iPhone"],
  [/iPad/, "iPad"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X|Macintosh/, "Mac"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** "Firefox on Linux", from a browser's User-Agent. */
export function browserName(agent: string | undefined): string {
  const of = (list: readonly (readonly [RegExp, string])[]) => list.find(([is]) => is.test(agent ?? ""))?.[1];
  const program = of(programs);
  const system = of(systems);
  if (program && system) return `${program} on ${system}`;
  return program ?? system ?? (agent ? agent.slice(0, 60) : "A browser");
}

const scopes: Readonly<Record<string, string>> = { read: "look", send: "send messages", manage: "delete and manage" };

/** What a key may do, for people. */
export const mayDo = (list: readonly string[] | undefined): string =>
  list && list.length > 0 ? `may ${list.map((s) => scopes[s] ?? s).join(", ")}` : "may do everything";

export const deviceKinds = { webhook: "Program", webpush: "Browser", fcm: "Phone" } as const;

/** An address without what everybody's begins with: "acme:ana" is "ana" for people. */
export const shortName = (user: string): string => user.replace(/^[a-z][a-z0-9-]*:/, "");
