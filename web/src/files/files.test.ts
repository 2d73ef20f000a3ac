// What the page knows of files, and that nothing that was typed is lost.

import { beforeEach, describe, expect, test } from "vitest";

import { createClient } from "../api/client.ts";
import { FakeVault, versionOf } from "../testing/vault.ts";
import { Files, isChanged } from "./files.ts";
import { rowsOf } from "./tree.ts";

let vault: FakeVault;
let files: Files;
let kept: Map<string, string>;

const now = () => files.store.getState();
const rows = () => rowsOf(now().folders, now().open).map((r) => (r.kind === "note" ? `(${r.note})` : r.path));
const settle = async () => {
  for (let i = 0; i < 30; i++) await Promise.resolve();
  await new Promise((done) => setImmediate(done));
};
const make = () => new Files({ client: createClient("http://parley.test/", vault.fetch), app: "notes", storage: { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => void kept.set(k, v) } });

beforeEach(async () => {
  kept = new Map();
  vault = new FakeVault({ "README.md": "# Notes\n", "garden/plan.md": "1. Water\n2. Weed\n3. Rest\n4. More\n5. Last\n", "garden/roses.md": "red\n", "garden/2024/old.md": "old\n" });
  files = make();
  await files.start();
  await settle();
});

describe("the tree", () => {
  test("is read folder by folder", async () => {
    expect(rows()).toEqual(["garden", "README.md"]);
    files.expand("garden");
    expect(rows()).toEqual(["garden", "(reading)", "README.md"]);
    await settle();
    expect(rows()).toEqual(["garden", "garden/2024", "garden/plan.md", "garden/roses.md", "README.md"]);
    files.collapse("garden");
    expect(rows()).toEqual(["garden", "README.md"]);
  });

  test("goes on where a folder has many entries", async () => {
    for (let i = 0; i < 1100; i++) vault.of().set(`many/${String(i).padStart(4, "0")}.md`, "x");
    files.expand("many");
    await settle();
    expect([now().folders.get("many")?.entries.length, now().folders.get("many")?.more]).toEqual([500, true]);
    files.further("many");
    await settle();
    files.further("many");
    await settle();
    expect([now().folders.get("many")?.entries.length, now().folders.get("many")?.more]).toEqual([1100, false]);
    files.refresh();
    await settle();
    expect(now().folders.get("many")?.entries.length, "read again, it shows as many").toBe(1100);
  });

  test("says when it cannot be read, and can be read again", async () => {
    vault.down = true;
    files.expand("garden");
    await settle();
    expect(rows()).toContain("(failed)");
    vault.down = false;
    files.further("garden");
    await settle();
    expect(rows()).toContain("garden/plan.md");
  });

  test("follows changes: new files, new folders, and what is gone", async () => {
    files.expand("garden");
    await settle();
    vault.of().set("garden/new.md", "x");
    vault.of().set("shop/a/list.md", "x");
    vault.of().delete("garden/roses.md");
    files.touched(["garden/new.md", "shop/a/list.md", "garden/roses.md"]);
    await settle();
    expect(rows()).toEqual(["garden", "garden/2024", "garden/new.md", "garden/plan.md", "shop", "README.md"]);
  });

  test("opens the folders of a file", async () => {
    files.reveal("garden/2024/old.md");
    await settle();
    expect(rows()).toContain("garden/2024/old.md");
    expect(now().at).toBe("garden/2024/old.md");
  });
});

describe("a file", () => {
  test("is shown, and those before it are found again", async () => {
    await files.show("README.md");
    await files.show("garden/plan.md", "Weed");
    expect([now().doc?.path, now().doc?.heading, now().doc?.file?.lines]).toEqual(["garden/plan.md", "Weed", 5]);
    await files.goBack();
    expect([now().doc?.path, now().forward]).toEqual(["README.md", ["garden/plan.md"]]);
    await files.goForward();
    expect([now().doc?.path, now().back]).toEqual(["garden/plan.md", ["README.md"]]);
  });

  test("that comes late does not take the place of another", async () => {
    let late = () => undefined as void;
    vault.before = (_m, path) => (path === "README.md" ? new Promise<void>((done) => (late = done)) : undefined);
    const first = files.show("README.md");
    await settle();
    await files.show("garden/roses.md");
    late();
    await first;
    expect([now().doc?.path, now().doc?.file?.text]).toEqual(["garden/roses.md", "red\n"]);
  });

  test("that is long is read on, and from its beginning if it has changed meanwhile", async () => {
    vault.lines = 2;
    await files.show("garden/plan.md");
    expect([now().doc?.file?.text, now().doc?.file?.next_line]).toEqual(["1. Water\n2. Weed\n", 3]);
    await files.readOn();
    expect(now().doc?.file?.text).toBe("1. Water\n2. Weed\n3. Rest\n4. More\n");
    vault.of().set("garden/plan.md", "x\ny\nz\n");
    await files.readOn();
    expect(now().doc?.file?.text).toBe("x\ny\n");
    files.edit();
    expect(files.draft("garden/plan.md"), "a part is not edited as the whole").toBeUndefined();
  });

  test("that is missing can be made", async () => {
    await files.show("garden/new.md");
    expect(now().doc?.state).toBe("missing");
    files.edit();
    files.type("new\n");
    expect(await files.save()).toBe(true);
    expect([vault.of().get("garden/new.md"), now().doc?.state, now().doc?.file?.version]).toEqual(["new\n", "read", versionOf("new\n")]);
  });

  test("is read again when an agent changed it", async () => {
    await files.show("garden/roses.md");
    vault.of().set("garden/roses.md", "white\n");
    files.touched(["garden/roses.md"]);
    await settle();
    expect(now().doc?.file?.text).toBe("white\n");
  });

  test("is moved and deleted", async () => {
    await files.show("garden/roses.md");
    await files.move("flowers/roses.md");
    await settle();
    expect([now().doc?.path, now().doc?.file?.text, vault.of().has("garden/roses.md"), rows()]).toEqual(["flowers/roses.md", "red\n", false, ["flowers", "garden", "README.md"]]);
    await expect(files.move("README.md")).rejects.toMatchObject({ code: "conflict", field: "to" });
    await files.remove();
    expect([now().doc, vault.of().has("flowers/roses.md")]).toEqual([undefined, false]);
  });
});

describe("what was typed", () => {
  const typed = (text: string) => {
    files.edit();
    files.type(text);
  };

  test("is saved over the version that was read", async () => {
    await files.show("garden/roses.md");
    typed("red and white\n");
    expect(files.unsaved()).toBe(true);
    expect(await files.save()).toBe(true);
    expect([vault.of().get("garden/roses.md"), files.unsaved(), now().doc?.file?.text]).toEqual(["red and white\n", false, "red and white\n"]);
    typed("red, white and pink\n");
    expect(await files.save(), "and again").toBe(true);
  });

  test("stays while other files and workspaces are looked at", async () => {
    vault.spaces.push({ app: "notes", name: "shared/sebastian", kind: "granted" });
    await files.start();
    await files.show("garden/roses.md");
    typed("mine");
    await files.show("README.md");
    files.choose("shared/sebastian");
    await settle();
    expect([files.draft("garden/roses.md"), files.unsaved(), kept.get("parley.notes.workspace")]).toEqual([undefined, true, "shared/sebastian"]);
    files.choose("shared/petra");
    await files.show("garden/roses.md");
    expect(files.draft("garden/roses.md")?.text).toBe("mine");
  });

  test("while it is being saved is not lost", async () => {
    await files.show("garden/roses.md");
    typed("one");
    let go = () => undefined as void;
    vault.before = (method) => (method === "PUT" ? new Promise<void>((done) => (go = done)) : undefined);
    const saving = files.save();
    await settle();
    files.type("one two");
    expect(await files.save(), "one save at a time").toBe(false);
    go();
    expect(await saving).toBe(true);
    const d = files.draft("garden/roses.md");
    expect([d?.text, d?.base.text, d && isChanged(d), vault.of().get("garden/roses.md")]).toEqual(["one two", "one", true, "one"]);
  });

  test("stays when the server is away", async () => {
    await files.show("garden/roses.md");
    typed("mine");
    vault.down = true;
    expect(await files.save()).toBe(false);
    expect([files.draft("garden/roses.md")?.text, files.draft("garden/roses.md")?.error?.code]).toEqual(["mine", "unreachable"]);
    vault.down = false;
    expect(await files.save()).toBe(true);
  });

  describe("in conflict with what somebody else wrote", () => {
    const conflict = async (mine: string, theirs: string | undefined) => {
      await files.show("garden/plan.md");
      typed(mine);
      if (theirs === undefined) vault.of().delete("garden/plan.md");
      else vault.of().set("garden/plan.md", theirs);
      expect(await files.save()).toBe(false);
      expect(files.draft("garden/plan.md")?.text, "what was typed is still there").toBe(mine);
      expect(vault.of().get("garden/plan.md"), "and so is theirs").toBe(theirs);
    };
    const [water, last] = ["1. Water daily\n2. Weed\n3. Rest\n4. More\n5. Last\n", "1. Water\n2. Weed\n3. Rest\n4. More\n5. Party\n"];

    test("is put together with it", async () => {
      await conflict(water, last);
      await files.settle("merge");
      expect(files.draft("garden/plan.md")?.text).toBe("1. Water daily\n2. Weed\n3. Rest\n4. More\n5. Party\n");
      expect(vault.of().get("garden/plan.md"), "not saved unseen").toBe(last);
      expect(await files.save()).toBe(true);
    });

    test("is not put together where both changed the same line", async () => {
      await conflict(water, "1. Water never\n2. Weed\n3. Rest\n4. More\n5. Last\n");
      await files.settle("merge");
      expect([files.draft("garden/plan.md")?.text, files.draft("garden/plan.md")?.conflict !== undefined]).toEqual([water, true]);
    });

    test("takes its place when that is wanted, unless it has changed once more", async () => {
      await conflict(water, last);
      vault.of().set("garden/plan.md", "third\n");
      await files.settle("mine");
      expect([vault.of().get("garden/plan.md"), files.draft("garden/plan.md")?.conflict?.file?.text]).toEqual(["third\n", "third\n"]);
      await files.settle("mine");
      expect(vault.of().get("garden/plan.md")).toBe(water);
    });

    test("gives way to it", async () => {
      await conflict(water, last);
      await files.settle("theirs");
      const d = files.draft("garden/plan.md");
      expect([d?.text, d && isChanged(d)]).toEqual([last, false]);
    });

    test("is saved beside it", async () => {
      await conflict(water, last);
      vault.of().set("garden/plan (mine).md", "another");
      expect(await files.saveCopy()).toBe("garden/plan (mine 2).md");
      expect([vault.of().get("garden/plan (mine 2).md"), vault.of().get("garden/plan.md"), files.unsaved()]).toEqual([water, last, false]);
    });

    test("is saved as a new file when theirs is gone", async () => {
      await conflict(water, undefined);
      expect(files.draft("garden/plan.md")?.conflict).toEqual({ file: undefined });
      await files.settle("mine");
      expect(vault.of().get("garden/plan.md")).toBe(water);
    });
  });
});

test("names are read in pages, and again after changes", async () => {
  for (let i = 0; i < 2500; i++) vault.of().set(`n/${i}.md`, "x");
  await files.name();
  expect([now().names?.all.length, now().names?.complete]).toEqual([2504, true]);
  vault.of().set("n/new.md", "x");
  files.touched(["n/new.md"]);
  await settle();
  expect(now().names?.all).toContain("n/new.md");
});

test("workspaces that cannot be read are read again later; the last choice is kept", async () => {
  vault.spaces.push({ app: "notes", name: "shared/sebastian", kind: "granted" });
  kept.set("parley.notes.workspace", "shared/sebastian");
  vault.down = true;
  files = make();
  await files.start();
  expect([now().failed?.code, now().space]).toEqual(["unreachable", undefined]);
  vault.down = false;
  files.refresh();
  await settle();
  expect([now().failed, now().space?.name]).toEqual([undefined, "shared/sebastian"]);
});
