import { expect, test, vi } from "vitest";

import { addressesOf, optionsOf, presses, shortcutOf, shortcutText } from "./settings.ts";

const script = "https://parley.example/base/sidecar.js?v=1";
const page = "https://crm.example/leads/42";

test("without settings everything is at the server of the script", () => {
  expect(addressesOf({}, script, page)).toEqual({ api: "https://parley.example/base/", ws: "wss://parley.example/base/ws/codex", server: "https://parley.example/base/" });
});

test("what is set may be relative to the page", () => {
  expect(addressesOf({ apiUrl: "/" }, script, page)).toEqual({ api: "https://crm.example/", ws: "wss://crm.example/ws/codex", server: "https://parley.example/base/" });
  expect(addressesOf({ apiUrl: "http://api.example/v2", wsUrl: "/ws/codex", serverUrl: "/p" }, script, page)).toEqual({
    api: "http://api.example/v2/",
    ws: "wss://crm.example/ws/codex",
    server: "https://crm.example/p/",
  });
  expect(addressesOf({ wsUrl: "ws://a.example:81/x?y=1" }, script, page).ws).toBe("ws://a.example:81/x?y=1");
  expect(() => addressesOf({ wsUrl: "javascript:alert(1)" }, script, page)).toThrow(/WebSocket/);
});

test("the addresses may be set when the script is built", () => {
  vi.stubEnv("VITE_API_URL", "https://built.example");
  vi.stubEnv("VITE_CODEX_WS_URL", "wss://built.example/other");
  expect(addressesOf({}, script, page)).toMatchObject({ api: "https://built.example/", ws: "wss://built.example/other" });
  expect(addressesOf({ apiUrl: "/", wsUrl: "/ws/codex" }, script, page)).toMatchObject({ api: "https://crm.example/", ws: "wss://crm.example/ws/codex" });
  vi.unstubAllEnvs();
});

test("the tag's attributes are settings, and what is not understood is left out", () => {
  expect(optionsOf({ dataset: { apiUrl: "/", org: "o1", theme: "dark", side: "left", launcher: "none", suggestions: " a | b||", key: "" } })).toEqual({
    apiUrl: "/",
    org: "o1",
    theme: "dark",
    launcher: false,
    suggestions: ["a", "b"],
    key: "",
  });
});

test("a shortcut needs a modifier, because people type letters", () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const mac = shortcutOf("Mod+.", true);
  expect(mac && shortcutText(mac)).toBe("Meta+.");
  const pc = shortcutOf("Ctrl+Shift+K", false);
  const key = { key: "K", ctrlKey: true, metaKey: false, altKey: false, shiftKey: true };
  expect(pc && presses(pc, key)).toBe(true);
  expect(pc && presses(pc, { ...key, shiftKey: false })).toBe(false);
  expect(shortcutOf("", false)).toBeUndefined();
  expect(warn).not.toHaveBeenCalled();
  for (const bad of ["K", "Shift+K", "Hyper+K", "Ctrl+"]) expect(shortcutOf(bad, false)).toBeUndefined();
  expect(warn).toHaveBeenCalledTimes(4);
  warn.mockRestore();
});
