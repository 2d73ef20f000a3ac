// Files that are attached to a conversation: every prompt of it shows them as they are then.

import { readNote } from "../files/frontmatter.ts";
import { nameOf } from "../files/tree.ts";

/** What the server allows. */
export const mostEntities = 16;

/** The title of a note: of its properties, else its first heading, else the name of its file. */
export function titleIn(text: string, path: string): string {
  const note = readNote(text);
  const own = note.properties.find((p) => p.name.toLowerCase() === "title")?.values[0];
  const heading = /^#[ \t]+(.+?)[ \t#]*$/m.exec(note.body)?.[1];
  const title = own?.trim() || heading?.trim() || nameOf(path).replace(/\.md$/i, "");
  return [...title].slice(0, 200).join("");
}
