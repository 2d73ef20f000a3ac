import { expect, test } from "vitest";

import { toldApart } from "./Sidebar.tsx";

test("sessions that are called the same are numbered from the oldest on, and keep their numbers when they are used", () => {
  const entry = (id: string, name: string, begun: string, time = begun) => ({ id, name, time, begun });
  const why = "Why did the bedroom lights flicker last night?";
  const list = [entry("c", why, "3", "9"), entry("b", `${why} Again.`, "2"), entry("a", why, "1"), entry("d", "Other", "4")];
  expect([...toldApart(list)].sort()).toEqual([["a", 1], ["b", 2], ["c", 3], ["d", 1]]);
  expect([...toldApart(list.map((e) => (e.id === "a" ? { ...e, time: "99" } : e)).reverse())].sort()).toEqual([["a", 1], ["b", 2], ["c", 3], ["d", 1]]);
});
