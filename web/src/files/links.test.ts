import { describe, expect, test } from "vitest";

import { joined, linkTarget, slug, wikisIn, wikiTarget, type Names, type Target } from "./links.ts";

const names: Names = { all: ["README.md", "garden/plan.md", "garden/roses.md", "garden/2024/roses.md", "people/Ana Müller.md", "pictures/bed.png", "roses.md", "shop/list.markdown"], complete: true };
const said = (t: Target) => ("path" in t ? `${t.kind} ${t.path}${t.heading && `#${t.heading}`}` : t.kind === "heading" ? `#${t.heading}` : `outside ${t.href}`);

test("wiki links in a text", () => {
  expect(wikisIn("See [[roses]], [[garden/plan#Next steps|the plan]], [[#Above]] and ![[bed.png]]. Not [[]], [[a\nb]] or [x].").map((w) => `${w.embedded ? "!" : ""}${w.note}#${w.heading}|${w.words}`)).toEqual([
    "roses#|roses",
    "garden/plan#Next steps|the plan",
    "#Above|Above",
    "!bed.png#|bed.png",
  ]);
  expect(wikisIn("[[".repeat(20_000))).toEqual([]);
});

describe("a wiki link means", () => {
  test.each([
    ["roses", "garden/plan.md", "file garden/roses.md"],
    ["roses", "README.md", "file roses.md"],
    ["roses", "shop/list.markdown", "file roses.md"],
    ["2024/roses", "README.md", "file garden/2024/roses.md"],
    ["garden/roses.md", "x/y.md", "file garden/roses.md"],
    ["/garden/roses", "x/y.md", "file garden/roses.md"],
    ["ana mu\u0308ller", "README.md", "file people/Ana Müller.md"],
    ["bed.png", "README.md", "file pictures/bed.png"],
    ["list", "README.md", "file shop/list.markdown"],
    ["New note", "garden/plan.md", "missing garden/New note.md"],
    ["people/Bob", "garden/plan.md", "missing people/Bob.md"],
    ["../../../etc/passwd", "garden/plan.md", "outside "],
    ["es", "garden/plan.md", "missing garden/es.md"],
  ])("%s in %s: %s", (note, from, want) => expect(said(wikiTarget({ note, heading: "" }, from, names))).toBe(want));

  test("a heading", () => {
    expect(said(wikiTarget({ note: "", heading: "Above" }, "a.md", names))).toBe("#Above");
    expect(said(wikiTarget({ note: "roses", heading: "Red ones" }, "a.md", names))).toBe("file roses.md#Red ones");
  });
});

describe("a link of Markdown leads to", () => {
  test.each([
    ["roses.md", "garden/plan.md", "file garden/roses.md"],
    ["../roses.md#red-ones", "garden/plan.md", "file roses.md#red-ones"],
    ["./2024/roses.md", "garden/plan.md", "file garden/2024/roses.md"],
    ["/garden/plan.md", "people/x.md", "file garden/plan.md"],
    ["../people/Ana%20M%C3%BCller.md", "garden/plan.md", "file people/Ana Müller.md"],
    ["roses", "garden/plan.md", "file garden/roses.md"],
    ["Roses.md?x=1", "garden/plan.md", "file garden/roses.md"],
    ["#red", "a.md", "#red"],
    ["soon.md", "garden/plan.md", "missing garden/soon.md"],
    ["../../x.md", "garden/plan.md", "outside "],
    ["https://example.com/a", "a.md", "outside https://example.com/a"],
    ["mailto:ana@example.com", "a.md", "outside mailto:ana@example.com"],
    ["//example.com", "a.md", "outside //example.com"],
    ["100%.md", "garden/plan.md", "missing garden/100%.md"],
  ])("%s in %s: %s", (href, from, want) => expect(said(linkTarget(href, from, names))).toBe(want));

  test("a file that is not known to be missing while not all names are known", () => {
    expect(said(linkTarget("soon.md", "garden/plan.md", { ...names, complete: false }))).toBe("file garden/soon.md");
    expect(said(linkTarget("soon.md", "garden/plan.md", undefined))).toBe("file garden/soon.md");
  });
});

test.each([
  ["a/", "b.md", "a/b.md"],
  ["a/b/", "../c.md", "a/c.md"],
  ["a/", "../../c.md", undefined],
  ["", "a//./b", "a/b"],
])("%s and %s are %s", (folder, to, want) => expect(joined(folder, to)).toBe(want));

test("headings are compared by what they say", () => expect(["Next steps!", "next-steps", "Next  Steps"].map(slug)).toEqual(["next-steps", "next-steps", "next-steps"]));
