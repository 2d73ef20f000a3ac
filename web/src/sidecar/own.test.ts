import { options, type VNode } from "preact";
import { afterEach, expect, test } from "vitest";

import { drawOwn, own } from "./own.ts";
import { optionsOf } from "./settings.ts";
import { frameOf } from "./wire.ts";

const polluted = Object.prototype as unknown as Record<string, unknown>;
const evil = { wsUrl: "wss://evil.example", sessionId: "forged", text: "forged", dangerouslySetInnerHTML: { __html: "<b>" } };

afterEach(() => {
  for (const key of Object.keys(evil)) delete polluted[key];
});

test("what every object of the page has is nobody's setting, frame or property", () => {
  Object.assign(polluted, evil);
  expect(own<{ wsUrl?: string; org?: string }>({ org: "o1" }).wsUrl).toBe(undefined);
  expect(Object.keys(own<{ a?: number; b?: number }>({ a: 1 }, undefined, { a: 2, b: 3 }))).toEqual(["a", "b"]);
  expect(Object.keys(optionsOf({ dataset: { org: "o1" } }))).toEqual(["org"]);
  expect(frameOf('{"type":"session.id"}')).toBe(undefined);
  expect(frameOf('{"type":"turn.completed"}')).toMatchObject({ type: "turn.completed" });
  expect((frameOf('{"type":"turn.completed"}') as { text: string }).text).toBe("");
  drawOwn();
  drawOwn();
  const vnode = { type: "p", props: { class: "x", ...evil } } as unknown as VNode; // as Preact copies them
  options.vnode?.(vnode);
  expect(Object.keys(vnode.props)).toEqual(["class"]);
  const text = { type: null, props: "a text" } as unknown as VNode;
  options.vnode?.(text);
  expect(text.props).toBe("a text");
});
