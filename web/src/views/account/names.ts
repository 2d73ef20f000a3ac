// What a browser is, as far as people recognise it from what it calls itself, and other words of the page.

import type { Schedule, ScheduleRun } from "../../api/types.gen.ts";

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

const weekdays = ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];
const named: Readonly<Record<string, string>> = { "@hourly": "every hour", "@daily": "every day at 00:00", "@midnight": "every day at 00:00", "@weekly": "Sundays at 00:00", "@monthly": "on the 1st of each month", "@yearly": "once a year", "@annually": "once a year" };

/** When a schedule runs, in words. */
export function inWords(s: Pick<Schedule, "cron" | "time_zone" | "on_change_seconds">): string {
  const change = s.on_change_seconds ? "when the lake was changed" : "";
  return [s.cron === "" ? "" : timesInWords(s), change].filter((part) => part !== "").join(", and ");
}

/** A schedule's times in words, as far as the expression is a common one; else the expression. */
function timesInWords(s: Pick<Schedule, "cron" | "time_zone">): string {
  const zone = s.time_zone && s.time_zone !== "UTC" ? ` in ${s.time_zone.replace(/^.*\//, "").replaceAll("_", " ")}` : " UTC";
  const name = named[s.cron.toLowerCase()];
  if (name) return name + (name.includes(":") ? zone : "");
  const [minute = "", hour = "", day = "", month = "", week = ""] = s.cron.toLowerCase().split(/\s+/);
  if (month !== "*" || !/^\d{1,2}$/.test(minute)) return s.cron + zone;
  if (hour === "*" && day === "*" && week === "*") return `every hour at :${minute.padStart(2, "0")}`;
  if (!/^\d{1,2}$/.test(hour)) return s.cron + zone;
  const at = ` at ${hour.padStart(2, "0")}:${minute.padStart(2, "0")}${zone}`;
  if (day === "*" && week === "*") return `every day${at}`;
  if (day === "*" && /^(mon-fri|1-5)$/.test(week)) return `weekdays${at}`;
  const one = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"].indexOf(week);
  if (day === "*" && (one >= 0 || /^[0-6]$/.test(week))) return `${weekdays[one >= 0 ? one : Number(week)]}${at}`;
  return s.cron + zone;
}

/** What became of a run. */
export function became(r: Pick<ScheduleRun, "outcome" | "status">): string {
  if (r.outcome === "skipped") return "Skipped";
  if (r.outcome === "missed") return "Missed";
  if (r.outcome === "failed") return "Could not begin";
  switch (r.status) {
    case "completed":
      return "Completed";
    case "failed":
      return "Failed";
    case "cancelled":
      return "Cancelled";
    case "expired":
      return "Expired";
    case "interrupted":
      return "Interrupted";
    case "waiting":
      return "Waits for you since";
    case undefined:
      return "Ran";
    default:
      return "Running since";
  }
}
