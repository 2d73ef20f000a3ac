// What a call would change in the front matter of an entity of a lake, value by value.

import { propertyOf, readNote, type Property } from "../../files/frontmatter.ts";
import type { Current } from "./foresee.ts";

/** A value of the front matter. before: undefined if there is none, or if it is not known. */
export interface FieldChange {
  name: string;
  what: "changed" | "new" | "removed" | "same" | "absent" | "set";
  before?: Property;
  after?: Property;
}

/** The values that are set or removed, in the order of their names, and what to say besides. */
export function fieldsOf(front: Readonly<Record<string, unknown>>, now: Current): { fields: FieldChange[]; note: string } {
  const note = now.state === "read" ? readNote(now.text) : undefined;
  const known = note !== undefined && note.problem === "";
  const has = new Map((known ? note.properties : []).map((p) => [p.name, p]));
  const fields = Object.keys(front).sort().map((name): FieldChange => {
    const before = has.get(name);
    const value = front[name];
    if (value === null) return !known ? { name, what: "removed" } : before ? { name, what: "removed", before } : { name, what: "absent" };
    const after = propertyOf(name, value);
    if (!known) return { name, what: "set", after };
    return before ? { name, what: same(before, after) ? "same" : "changed", before, after } : { name, what: "new", after };
  });
  return { fields, note: note?.problem ? "The values that the page has now cannot be read, so the call will fail: they have to be repaired first." : "" };
}

const same = (a: Property, b: Property): boolean => a.list === b.list && a.values.length === b.values.length && a.values.every((v, i) => v === b.values[i]);
