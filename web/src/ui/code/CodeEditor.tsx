// A code editor, and a viewer of large texts: CodeMirror. It is in a shadow root, because there its styles are sheets made by
// script, which our content security policy allows, and not elements of style, which it does not.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Transaction, type Extension } from "@codemirror/state";
import { crosshairCursor, drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers, rectangularSelection } from "@codemirror/view";
import { useEffect, useRef } from "react";

import { kinds } from "./highlight.ts";
import { loadInner, loadLanguage } from "./languages.ts";

interface Props {
  /** Its text at first. A new text replaces what is in the editor, and can be undone there. */
  text: string;
  /** The name of the language, see languages.ts. */
  language: string | undefined;
  /** For screen readers. */
  label: string;
  readOnly?: boolean;
  autoFocus?: boolean;
  /** The number of the first line. */
  firstLine?: number;
  /** What can be put between [[ and ]]. */
  names?: () => readonly string[];
  onChange?(text: string): void;
  onSave?(): void;
}

const colors: Readonly<Record<string, string>> = {
  "code-comment": "var(--code-comment)",
  "code-keyword": "var(--code-keyword)",
  "code-string": "var(--code-string)",
  "code-number": "var(--code-number)",
  "code-name": "var(--code-name)",
  "code-type": "var(--code-type)",
  "code-property": "var(--code-property)",
  "code-link": "var(--code-name)",
  "code-deleted": "var(--color-danger)",
};

const theme = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--color-text-primary)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "1.6", overflow: "auto" },
  ".cm-content": { padding: "10px 0 40vh", caretColor: "var(--color-accent)" },
  "&.cm-readonly .cm-content": { paddingBottom: "16px" },
  ".cm-line": { padding: "0 16px 0 8px" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--color-text-muted)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 14px", minWidth: "36px" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--color-text-muted) 8%, transparent)" },
  ".cm-activeLineGutter": { color: "var(--color-text-primary)" },
  ".cm-cursor": { borderLeftColor: "var(--color-accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--color-accent) 28%, transparent)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--color-accent) 30%, transparent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--color-accent) 16%, transparent)" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, var(--color-accent) 30%, transparent)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, var(--color-accent) 60%, transparent)" },
  ".cm-panels": { backgroundColor: "var(--color-surface)", color: "var(--color-text-primary)", borderColor: "var(--color-border)", fontFamily: "var(--font-sans)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--color-border)" },
  ".cm-panel.cm-search": { padding: "8px 28px 8px 12px", fontSize: "13px", display: "flex", flexWrap: "wrap", gap: "6px", alignItems: "center" },
  ".cm-panel.cm-search br": { display: "block", width: "100%", content: '""' },
  ".cm-panel.cm-search label": { display: "inline-flex", alignItems: "center", gap: "4px", fontSize: "12px", color: "var(--color-text-muted)" },
  ".cm-panel.cm-search [name=close]": { color: "var(--color-text-muted)", fontSize: "18px", right: "6px", top: "6px", width: "24px", height: "24px", cursor: "pointer" },
  ".cm-textfield": { backgroundColor: "var(--color-bg)", border: "1px solid var(--color-border)", borderRadius: "6px", color: "inherit", fontSize: "13px", padding: "4px 8px", margin: "0" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "transparent", border: "1px solid var(--color-border)", borderRadius: "6px", color: "inherit", fontSize: "12px", padding: "4px 8px", margin: "0", cursor: "pointer" },
  ".cm-button:hover": { backgroundColor: "var(--color-hover)" },
  ":is(.cm-button, .cm-textfield, [name=close], input):focus-visible": { outline: "2px solid var(--color-focus)", outlineOffset: "1px" },
  ".cm-tooltip": { backgroundColor: "var(--color-surface)", border: "1px solid var(--color-border)", borderRadius: "8px", color: "var(--color-text-primary)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--font-sans)", maxWidth: "min(28rem, 90vw)" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "4px 10px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--color-hover)", color: "inherit" },
  ".cm-completionMatchedText": { textDecoration: "none", color: "var(--color-link)" },
  ".cm-specialChar": { color: "var(--color-danger)" },
});

const highlighting = syntaxHighlighting(HighlightStyle.define(kinds.map((k) => ({ tag: [...k.tag], color: colors[k.class] ?? "inherit" }))));

/** Names of notes, once [[ was typed. */
function noteNames(names: () => readonly string[]) {
  return (context: CompletionContext) => {
    const begun = context.matchBefore(/\[\[[^[\]|#\n]{0,120}$/);
    if (!begun) return null;
    const from = begun.from + 2;
    return {
      from,
      options: names().map((label) => ({
        label,
        apply: (view: EditorView, _c: unknown, a: number, b: number) => {
          const closed = view.state.sliceDoc(b, b + 2) === "]]";
          view.dispatch({ changes: { from: a, to: b, insert: closed ? label : `${label}]]` }, selection: { anchor: a + label.length + 2 }, userEvent: "input.complete" });
        },
      })),
      validFor: /^[^[\]|#\n]*$/,
    };
  };
}

export default function CodeEditor({ text, language, label, readOnly = false, autoFocus = false, firstLine = 1, names, onChange, onSave }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const spoken = useRef(new Compartment());
  const now = useRef({ onChange, onSave, names });
  now.current = { onChange, onSave, names };

  useEffect(() => {
    const h = host.current;
    if (!h) return;
    const root = h.shadowRoot ?? h.attachShadow({ mode: "open" });
    const place = document.createElement("div");
    place.style.height = "100%";
    root.append(place);
    const editing: Extension[] = readOnly
      ? [EditorState.readOnly.of(true), EditorView.editorAttributes.of({ class: "cm-readonly" })]
      : [
          history(),
          closeBrackets(),
          indentOnInput(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          autocompletion({ override: [noteNames(() => now.current.names?.() ?? [])], icons: false }),
          keymap.of([{ key: "Mod-s", preventDefault: true, run: () => (now.current.onSave?.(), true) }, ...closeBracketsKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) now.current.onChange?.(u.state.doc.toString());
          }),
        ];
    const v = new EditorView({
      parent: place,
      root,
      state: EditorState.create({
        doc: text,
        extensions: [
          lineNumbers({ formatNumber: (n) => String(n + firstLine - 1) }),
          highlightSpecialChars({ addSpecialChars: /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g }),
          drawSelection(),
          rectangularSelection(),
          crosshairCursor(),
          bracketMatching(),
          highlightSelectionMatches(),
          search({ top: true }),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          ...editing,
          keymap.of([...searchKeymap, ...defaultKeymap]),
          spoken.current.of([]),
          highlighting,
          theme,
        ],
      }),
    });
    view.current = v;
    if (autoFocus) v.focus();
    return () => {
      view.current = undefined;
      v.destroy();
      place.remove();
    };
    // Only what cannot change in a living editor makes a new one.
  }, [readOnly, label, firstLine]);

  // A text from elsewhere takes the place of what is in the editor, where it can be undone.
  useEffect(() => {
    const v = view.current;
    if (!v || v.state.doc.toString() === text) return;
    v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: text }, annotations: Transaction.userEvent.of("replace") });
  }, [text]);

  useEffect(() => {
    const v = view.current;
    if (!v || language === undefined) return;
    let gone = false;
    void loadInner(language === "markdown" ? text : "")
      .then(() => loadLanguage(language))
      .then(
        (l) => {
          if (!gone) v.dispatch({ effects: spoken.current.reconfigure(l) });
        },
        () => undefined, // without colours it works the same
      );
    return () => {
      gone = true;
    };
  }, [language, readOnly, label, firstLine]);

  return <div ref={host} data-editor className="h-full min-h-0" />;
}
