// What a tool was asked to do, in words for a householder. The original call is
// folded under its line.

import type { Event } from "../../api/types.gen.ts";
import { callOf, humane, type Words } from "../../chat/turn/words.ts";
import { plainly, type Names } from "./plain.ts";

type Input = Readonly<Record<string, unknown>>;

/** What each tool of the house does. Other tools are called by their own name. */
const does: Readonly<Record<string, (about: string, input: Input) => string>> = {
  index_search: (about) => `Looks for ${about || "everything"}`,
  ha_state_query: (about) => `Reads how ${about || "everything"} is now`,
  ha_history: (about) => `Reads the history of ${about}`,
  ha_logbook: (about) => `Reads the logbook${about && ` of ${about}`}`,
  analyze_errors: (about) => `Reads the errors${about && ` about ${about}`}`,
  diagnose_entity: (about) => `Looks at what ${about} did, and what else happened then`,
  ha_analyze: (about) => `Computes over what was recorded${about && ` of ${about}`}`,
  ha_call_service: (about, input) => {
    const [domain = "", service = ""] = text(input["service"]).split(".");
    return `${humane(service)}${about ? `: ${about}` : ` (${humane(domain).toLowerCase()})`}`;
  },
  AskUserQuestion: (_about, input) => `Asks: ${text(input["questions"])}`,
};

export function callInWords(tool: string, input: unknown, names: Names): string {
  const given = (typeof input === "object" && input !== null ? input : {}) as Input;
  const known = Object.hasOwn(does, tool) ? does[tool] : undefined;
  if (known) return plainly(known(aboutOf(given, names), given) + timeOf(given), names);
  return plainly(callOf(tool, input), names);
}

const most = 3;

/** The names of the things that a call is about, or else the words and limits of the search for them. */
function aboutOf(input: Input, names: Names): string {
  const target = (input["target"] ?? {}) as Input;
  const things = [input["entities"], input["entity"], target["entity_id"], target["device_id"], target["area_id"]].flat().filter((t) => typeof t === "string");
  const named = things.slice(0, most).map((id) => names.get(id)?.name || id);
  if (things.length > most) named.push(`${things.length - most} more`);
  const limits = ["state", "integration", "device_class", "domain"].map((k) => text(input[k]).replaceAll("_", " ")).filter(Boolean);
  if (limits.length > 0) limits.unshift("every");
  if (!input["device_class"] && !input["domain"] && limits.length > 0) limits.push("thing");
  const query = text(input["query"]);
  const all = [...(query ? [`“${query}”`] : []), ...(limits.length > 0 ? [limits.join(" ")] : []), ...(named.length > 0 ? [listed(named)] : [])].join(", ");
  const where = text(input["area"]) || text(input["device"]);
  return all + (where && `${all ? " in " : ""}${where}`);
}

function timeOf(input: Input): string {
  const [start, end] = [text(input["start"]) || text(input["since"]), text(input["end"])];
  if (start === "") return "";
  return end === "" ? `, ${/^[-\d]/.test(start) ? `from ${start}` : start}` : `, ${start} to ${end}`;
}

const listed = (all: readonly string[]): string => (all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`);

const text = (v: unknown): string => (typeof v === "string" ? v : "");

/** The steps of a turn with the names of the house. */
export const wordsOf = (names: Names): Words => ({ call: (tool, input) => callInWords(tool, input, names), text: (text) => plainly(text, names) });

/** The names in the results of a turn's tools. They are needed because the panel does not list everything. */
export function namesIn(events: readonly Event[]): Names {
  const names = new Map<string, { name: string }>();
  const visit = (v: unknown, depth: number): void => {
    if (typeof v !== "object" || v === null || depth > 4) return;
    const { entity_id: id, name } = v as Input;
    if (typeof id === "string" && typeof name === "string" && name !== "") names.set(id, { name });
    for (const child of Object.values(v)) visit(child, depth + 1);
  };
  for (const e of events) {
    if (e.type === "tool.ended") visit(e.data?.data, 0);
    if (e.type !== "context.retrieved") continue;
    for (const s of e.data?.snippets ?? []) {
      // "closed · Garage door · Garage": the state, the name, and the area.
      const name = s.text.split("\n", 1)[0]?.split(" · ")[1];
      if (name && /^[a-z_]+\.[a-z0-9_]+$/.test(s.ref)) names.set(s.ref, { name });
    }
  }
  return names;
}
