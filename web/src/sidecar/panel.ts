// The panel on the page: an element with a shadow root, so that no style gets in or out, shown in the browser's top layer,
// so that no z-index, transform or overflow of the page reaches it. On a wide window it is beside the page, which stays
// usable; on a narrow one it covers the page, and is modal.

import { h, render } from "preact";

import type { Options } from "../../public/sidecar.d.ts";
import type { Chat, Happening } from "./chat.ts";
import { presses, shortcutOf, shortcutText, type Shortcut } from "./settings.ts";
import css from "./sidecar.css?inline";
import { View, type Ui } from "./views/View.tsx";

/** In a window that is not wider, the panel covers the page. */
const narrow = "(max-width: 640px)";

/** Keys that are typed into the panel are no shortcuts of the page. */
const kept = ["keydown", "keyup", "keypress", "focusin", "focusout"] as const;

export class Panel {
  readonly #chat: Chat;
  readonly #told: (open: boolean) => void;
  readonly #host = document.createElement("parley-sidecar");
  readonly #root: ShadowRoot;
  readonly #off = new AbortController();
  readonly #watch: MutationObserver;
  readonly #narrow = matchMedia(narrow);
  #options: Options = {};
  #shortcut: Shortcut | undefined;
  #open = false;
  /** What had the focus before the panel. */
  #before: Element | undefined;
  #context: string | undefined;
  #scheduled = false;
  #restored = 0;
  #said = { text: "", urgent: "", n: 0 };
  /** Whether the page's context goes with the next message. */
  withContext = true;

  constructor(chat: Chat, options: Options, told: (open: boolean) => void) {
    this.#chat = chat;
    this.#told = told;
    this.#root = this.#host.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    this.#root.adoptedStyleSheets = [sheet];
    this.#take(options);
    this.#watch = new MutationObserver(() => this.#stay());
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** Puts it on the page. */
  appear(): void {
    const { signal } = this.#off;
    document.documentElement.append(this.#host);
    for (const type of kept) this.#host.addEventListener(type, (e) => e.stopPropagation(), { signal });
    window.addEventListener("keydown", (e) => this.#key(e), { signal, capture: true });
    window.addEventListener("pagehide", () => this.#chat.persist(), { signal });
    window.addEventListener("online", () => this.#chat.hurry(), { signal });
    this.#narrow.addEventListener("change", () => this.#refit(), { signal });
    this.#watch.observe(document.documentElement, { childList: true });
    this.#chat.changed = () => this.#draw();
    const was = this.#chat.kept();
    this.#chat.panel.draft = was?.draft ?? "";
    this.#render();
    this.#raise();
    void this.#chat.restore();
    if (was?.open && !this.#narrow.matches) this.open(false);
  }

  remove(): void {
    this.#off.abort();
    this.#watch.disconnect();
    this.#chat.changed = () => undefined;
    const had = this.#hasFocus();
    render(null, this.#root);
    this.#host.remove();
    if (had) this.#giveBack();
  }

  configure(options: Options): void {
    this.#take(options);
    this.#render();
  }

  context(label: string | undefined): void {
    if (label !== this.#context) this.withContext = true;
    this.#context = label;
    this.#draw();
  }

  prefill(text: string): void {
    this.#chat.panel.draft = text;
    this.open();
    this.#draw();
  }

  open(focus = true): void {
    if (!this.#open) {
      this.#before = deepest();
      this.#open = true;
      this.#render();
      this.#fit();
      this.#chat.panel.open = true;
      this.#chat.persist();
      this.#told(true);
    }
    if (focus) this.#root.querySelector<HTMLElement>("[data-first]")?.focus();
    else if (this.#hasFocus()) {
      // What was shown takes the focus by itself, also on a page that has only been loaded again.
      (this.#root.activeElement as HTMLElement | null)?.blur();
      if (this.#before instanceof HTMLElement && this.#before !== document.body) this.#before.focus({ preventScroll: true });
    }
  }

  close(): void {
    if (!this.#open) return;
    const had = this.#hasFocus();
    this.#open = false;
    this.#hide();
    this.#chat.panel.open = false;
    this.#chat.persist();
    this.#render();
    if (had) this.#giveBack();
    this.#told(false);
  }

  /** Says to screen readers what happened, once and in whole sentences: the text in flight would be read in pieces. */
  announce(h: Happening): void {
    switch (h.type) {
      case "answer":
        return this.#say(`Answer: ${h.text.replace(/[*_`#>|]+/g, " ").slice(0, 1000)}`);
      case "confirm":
        return this.#say(`Confirmation needed: ${h.card.title || `${h.card.method} ${h.card.path}`}. Confirm or cancel it in the conversation.`);
      case "write":
        return this.#say({ done: "The change was made.", failed: "The change was not made.", unknown: "It is not known whether the change was made." }[h.card.state as "done"] ?? "");
      case "action":
        return h.state === "started" ? this.#say(`Calling ${h.label}`) : undefined;
      case "error":
        return this.#say("", h.message);
      case "message":
        return this.#say("Message sent.");
    }
  }

  #say(text: string, urgent = ""): void {
    this.#said = { text, urgent, n: this.#said.n + 1 };
    this.#draw();
  }

  #take(options: Options): void {
    this.#options = options;
    this.#shortcut = shortcutOf(options.key ?? "Mod+.", /Mac|iP(hone|ad|od)/.test(navigator.platform));
    this.#host.dataset["theme"] = options.theme ?? "auto";
    this.#host.dataset["side"] = options.side ?? "end";
  }

  #key(e: KeyboardEvent): void {
    if (this.#shortcut && !e.defaultPrevented && !e.repeat && presses(this.#shortcut, e)) {
      e.preventDefault();
      e.stopPropagation();
      if (this.#open && !this.#hasFocus()) this.open();
      else if (this.#open) this.close();
      else this.open();
    }
  }

  /** At most one drawing a frame. */
  #draw(): void {
    if (this.#scheduled || this.#off.signal.aborted) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      if (!this.#off.signal.aborted) this.#render();
    });
  }

  #render(): void {
    if (this.#off.signal.aborted) return;
    const ui: Ui = {
      open: this.#open,
      modal: this.#narrow.matches,
      options: this.#options,
      shortcut: this.#shortcut ? shortcutText(this.#shortcut) : "",
      said: this.#said,
      context: this.#context,
      withContext: this.withContext,
      onContext: (on) => {
        this.withContext = on;
        this.#draw();
      },
      onOpen: () => this.open(),
      onClose: () => this.close(),
      onDraft: (text) => {
        this.#chat.panel.draft = text;
        this.#draw();
      },
    };
    render(h(View, { chat: this.#chat, state: this.#chat.state, draft: this.#chat.panel.draft, ui }), this.#root);
  }

  get #dialog(): HTMLDialogElement | null {
    return this.#root.querySelector("dialog");
  }

  /** Shows the open panel as the window's width has it. */
  #fit(): void {
    const dialog = this.#dialog;
    if (!dialog) return;
    if (this.#narrow.matches) {
      dialog.removeAttribute("popover");
      if (!dialog.open) dialog.showModal();
      return;
    }
    if (typeof dialog.showPopover === "function") {
      dialog.setAttribute("popover", "manual");
      if (!dialog.matches(":popover-open")) dialog.showPopover();
    } else if (!dialog.open) dialog.show();
  }

  #hide(): void {
    const dialog = this.#dialog;
    if (!dialog) return;
    if (dialog.hasAttribute("popover") && dialog.matches(":popover-open")) dialog.hidePopover();
    if (dialog.open) dialog.close();
  }

  /** The window has become narrow or wide. */
  #refit(): void {
    if (this.#open) {
      const focused = this.#root.activeElement as HTMLElement | null;
      this.#hide();
      this.#fit();
      focused?.focus();
    }
    this.#render();
  }

  /** Puts the button into the top layer. */
  #raise(): void {
    const layer = this.#root.querySelector<HTMLElement>("[data-layer]");
    if (layer && typeof layer.showPopover === "function") {
      layer.setAttribute("popover", "manual");
      if (!layer.matches(":popover-open")) layer.showPopover();
    }
  }

  /** Pages that replace their whole content take the panel with it: it comes back, unless the page insists. */
  #stay(): void {
    if (this.#host.isConnected || this.#off.signal.aborted || this.#restored++ > 20) return;
    document.documentElement.append(this.#host);
    this.#raise();
    if (this.#open) this.#fit();
  }

  #hasFocus(): boolean {
    return this.#root.activeElement !== null;
  }

  /** Gives the focus back to what had it before the panel. */
  #giveBack(): void {
    const to = this.#before;
    this.#before = undefined;
    if (to instanceof HTMLElement && to.isConnected && to !== document.body && to !== this.#host) to.focus({ preventScroll: true });
    else this.#root.querySelector<HTMLElement>("[data-launcher]")?.focus({ preventScroll: true });
  }
}

/** The element that has the focus, also inside the shadow roots of the page. */
function deepest(): Element | undefined {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at ?? undefined;
}
