import { expect, test } from "vitest";

import type { Event, FileSaved } from "../api/types.gen.ts";
import { changesOf } from "./changes.ts";

const saved = (...files: FileSaved[]): Event => ({ session: "s", turn: "t", seq: 1, time: "", type: "files.saved", data: { call: "c", files } });
const said = (events: Event[]) => changesOf(events).map((c) => `${c.what} ${c.path} +${c.added} -${c.removed} in ${c.saved.length}`);

test("files are listed once, with all that was done to them", () => {
  expect(
    said([
      saved({ path: "b.md", after: "1", added: 3 }),
      saved({ path: "a.md", before: "1", after: "2", added: 1, removed: 2 }),
      saved({ path: "b.md", before: "1", after: "2", added: 1, removed: 1 }, { path: "c.md", before: "1", removed: 4 }),
    ]),
  ).toEqual(["created b.md +4 -1 in 2", "changed a.md +1 -2 in 1", "deleted c.md +0 -4 in 1"]);
});

test("a file that is as it was before says so", () => {
  expect(said([saved({ path: "a.md", before: "1", after: "2", added: 1 }), saved({ path: "a.md", before: "2", after: "1", removed: 1 })])).toEqual(["undone a.md +1 -1 in 2"]);
  expect(said([saved({ path: "new.md", after: "1", added: 1 }), saved({ path: "new.md", before: "1", removed: 1 })])).toEqual(["undone new.md +1 -1 in 2"]);
});

test("events of a newer version, condensed ones and runtimes without digests are no trouble", () => {
  expect(said([{ ...saved({ path: "a.md" }), v: 9 } as Event, { ...saved(), data: null } as unknown as Event, saved({ path: "world.txt" })])).toEqual(["changed world.txt +0 -0 in 1"]);
});
