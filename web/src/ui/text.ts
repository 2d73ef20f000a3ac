// Times, amounts and sentences in readable form.

const relative = new Intl.RelativeTimeFormat("en-GB", { numeric: "auto", style: "short" });
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dateAndYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** "just now", "5 min ago", "yesterday", "3 Mar". */
export function ago(iso: string, now: number): string {
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return "";
  const seconds = Math.max(0, (now - then) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return relative.format(-Math.max(1, Math.round(seconds / 60)), "minute");
  if (seconds < 86_400) return relative.format(-Math.round(seconds / 3600), "hour");
  if (seconds < 7 * 86_400) return relative.format(-Math.round(seconds / 86_400), "day");
  return (new Date(then).getFullYear() === new Date(now).getFullYear() ? date : dateAndYear).format(then);
}

/** "0.8 s", "12 s", "2 min 5 s"; never nothing. */
export function lasted(ms: number): string {
  const seconds = Math.max(0.1, ms / 1000);
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min${whole % 60 > 0 ? ` ${whole % 60} s` : ""}`;
}

/** A duration, more precise the shorter it is: "6 ms", "0.8 s", "2 min 5 s". */
export function took(ms: number): string {
  return ms < 95 ? `${Math.round(ms)} ms` : lasted(ms);
}

const hour = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** "21:03", in the reader's time zone. */
export const clock = (at: string | number): string => (Number.isNaN(new Date(at).getTime()) ? "" : hour.format(new Date(at)));

const second = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** "21:03:09", in the reader's time zone. */
export const clockExact = (at: string | number): string => (Number.isNaN(new Date(at).getTime()) ? "" : second.format(new Date(at)));

/** When something will be: "in 12 s", "at 21:03", "tomorrow at 01:00"; "" if the time has come. */
export function when(at: number, now: number): string {
  if (!(at > now)) return "";
  if (at - now < 90_000) return `in ${Math.ceil((at - now) / 1000)} s`;
  const day = (t: number): string => new Date(t).toDateString();
  if (day(at) === day(now)) return `at ${clock(at)}`;
  const next = new Date(now);
  next.setDate(next.getDate() + 1);
  return `${day(at) === next.toDateString() ? "tomorrow" : `on ${date.format(at)}`} at ${clock(at)}`;
}

const whole = new Intl.NumberFormat("en");

export const count = (n: number): string => whole.format(n);

/** "$0.00" for nothing, and enough digits to tell a small amount from nothing. */
export function dollars(usd: number): string {
  if (usd === 0) return "$0.00";
  if (usd < 0.0001) return "under $0.0001";
  return `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;
}

/** A server's message as a complete sentence. A path, name or address at its beginning or end stays as it is, to be copied. */
export function sentence(text: string | undefined): string {
  const t = text?.trim() ?? "";
  if (t === "") return "";
  const begin = /^\S*\w[/._@:]\w/.test(t) ? (t[0] ?? "") : t[0]?.toUpperCase();
  return begin + t.slice(1) + (/[.!?…:)\]]["”]?$|https?:\/\/\S+$/.test(t) ? "" : ".");
}

/**
 * "by ana", from the id of a user in the log. A server without keys has only one user, so there is
 * nothing to say. Home Assistant's ids of users mean nothing to people; a session is shown only to
 * its own user.
 */
export function byWhom(user: string | undefined): string {
  if (!user || user === "local") return "";
  return /^[0-9a-f]{32}$/.test(user) ? "by you" : `by ${user}`;
}

/** "48 KB" */
export function bytes(n: number): string {
  if (n < 1000) return `${n} bytes`;
  return n < 1_000_000 ? `${Math.round(n / 1000)} KB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** What a tool returned, for people: JSON that is only a string is shown as its text. */
export function outputText(output: string): string {
  if (!/^\s*"[^]*"\s*$/.test(output)) return output;
  try {
    const value: unknown = JSON.parse(output);
    return typeof value === "string" ? value : output;
  } catch {
    return output; // text that is quoted, or JSON that was cut off
  }
}
