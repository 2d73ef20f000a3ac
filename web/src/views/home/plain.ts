// Tool output for a householder: names instead of ids, and the house's clock without its offset.

/** The names of the house's things, by their ids. */
export type Names = ReadonlyMap<string, { readonly name: string }>;

const id = /\b([a-z][a-z_]*\.[a-z0-9][a-z0-9_]*)\b( \(([^()]*)\))?/g;
/** A time as the tools write it, in the house's zone. */
const local = /\b(\d{4})-(\d\d)-(\d\d) (\d\d:\d\d)(?::\d\d)?(?:Z|[+-]\d\d:\d\d)/g;
const instant = /\b\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)/g;
/** The current time and the zone, with which a tool's result ends. */
const now = /^now: \w+ (\d{4}-\d\d-\d\d) .*\(([\w/+-]+)\)$/m;

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function plainly(text: string, entities: Names): string {
  const told = now.exec(text);
  const today = told?.[1];
  const at = (day: string, clock: string): string => (day === today ? clock : `${Number(day.slice(8))} ${months[Number(day.slice(5, 7)) - 1] ?? ""} ${clock}`);
  return text
    .replace(now, "")
    .replace(local, (_all, y: string, m: string, d: string, clock: string) => at(`${y}-${m}-${d}`, clock))
    .replace(instant, (all) => inZone(all, told?.[2], at))
    .replace(/\bnot_home\b/g, "away")
    .replace(id, (all, one: string, beside: string | undefined, inside: string | undefined) => {
      const name = entities.get(one)?.name;
      if (!name) return all;
      return beside === undefined || inside === name ? name : name + beside;
    })
    .trimEnd();
}

/** An instant in the house's zone if that is known, otherwise in the reader's. */
function inZone(iso: string, zone: string | undefined, at: (day: string, clock: string) => string): string {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) return iso;
  try {
    const parts = new Intl.DateTimeFormat("en-CA", {
      ...(zone && { timeZone: zone }), year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
    }).formatToParts(when);
    const part = (type: string): string => parts.find((p) => p.type === type)?.value ?? "";
    return at(`${part("year")}-${part("month")}-${part("day")}`, `${part("hour")}:${part("minute")}`);
  } catch {
    return iso; // this browser does not know the zone
  }
}
