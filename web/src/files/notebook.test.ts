import { expect, test } from "vitest";

import { most, readNotebook } from "./notebook.ts";

const book = (cells: unknown, more: object = {}) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { language: "julia" } }, cells, ...more });
const code = (...outputs: unknown[]) => ({ cell_type: "code", execution_count: 3, source: ["x = 1\n", "x"], outputs });

test("cells and what they gave", () => {
  const n = readNotebook(book([{ cell_type: "markdown", source: "# Rain" }, code({ output_type: "stream", name: "stdout", text: ["a\n", "b\n"] }, { output_type: "execute_result", data: { "text/html": "<b>1</b>", "text/plain": ["1"] } })]));
  expect(n).toEqual({
    language: "julia",
    more: 0,
    cells: [
      { kind: "markdown", source: "# Rain", count: "", outputs: [] },
      { kind: "code", source: "x = 1\nx", count: "3", outputs: [{ kind: "text", text: "a\nb", error: false }, { kind: "text", text: "1", error: false }] },
    ],
  });
});

const outputsOf = (...outputs: unknown[]) => readNotebook(book([code(...outputs)]))?.cells[0]?.outputs;

test("pictures, only of kinds that are pictures and run nothing", () => {
  expect(outputsOf({ output_type: "display_data", data: { "image/png": "iVBO\nRw0=", "text/plain": "<Figure>" } })).toEqual([{ kind: "picture", type: "image/png", data: "iVBORw0=" }]);
  expect(outputsOf({ output_type: "display_data", data: { "image/png": '"><script>', "text/plain": "<Figure>" } })).toEqual([{ kind: "text", text: "<Figure>", error: false }]);
  expect(outputsOf({ output_type: "display_data", data: { "text/html": "<script>alert(1)</script>", "application/javascript": "alert(1)" } })).toEqual([{ kind: "hidden", what: "text/html, application/javascript" }]);
});

test("errors without the colours of a terminal", () => expect(outputsOf({ output_type: "error", ename: "E", evalue: "x", traceback: ["\u001b[0;31mE\u001b[0m: x"] })).toEqual([{ kind: "text", text: "E: x", error: true }]));

test("a very long notebook is cut", () => {
  const n = readNotebook(book(Array(most.cells + 7).fill({ cell_type: "raw", source: "" })));
  expect([n?.cells.length, n?.more]).toEqual([most.cells, 7]);
});

test.each(["", "{", "[]", "null", '{"cells":1}', book([], { nbformat: 3 })])("%j is no notebook", (text) => expect(readNotebook(text)).toBeUndefined());

test("cells of another form are no trouble", () => expect(readNotebook(book([null, 7, { source: 7, outputs: 7 }, { cell_type: "code", outputs: [null, { output_type: "new" }] }]))?.cells.length).toBe(4));
