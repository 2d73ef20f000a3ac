import { expect, test } from "vitest";

import { pageOf } from "./AppLogo.tsx";

test.each([
  ["http://127.0.0.1:8000/", undefined, "http://127.0.0.1:8000/apps/tea/"],
  ["http://127.0.0.1:8000/", "http://tea.localhost:8000/", "http://tea.localhost:8000/"],
  ["http://localhost:8000/", "http://127.0.0.1:8001/", "http://127.0.0.1:8001/"],
  ["https://parley.example/in/", "http://tea.localhost:8000/", "https://parley.example/in/apps/tea/"],
  ["https://parley.example/in/", "https://tea.example/", "https://tea.example/"],
  ["http://127.0.0.1:8000/", "javascript:alert(1)", "http://127.0.0.1:8000/apps/tea/"],
])("from %s, with a page at %s", (base, url, want) => {
  expect(pageOf({ name: "tea", page: { logo: false, ...(url && { url }) } }, base)).toBe(want);
});
