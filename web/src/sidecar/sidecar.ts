// The one sidecar of a page: what window.ParleySidecar is. It makes a panel when it is mounted, and takes it away.

import type * as Public from "../../public/sidecar.d.ts";
import { Chat, type Env, type Happening } from "./chat.ts";
import { own } from "./own.ts";
import { Panel } from "./panel.ts";
import { addressesOf, type Addresses } from "./settings.ts";
import { Tokens } from "./token.ts";

const longestContext = 8000;

export interface World extends Env {
  /** The address of the script. */
  script: string;
  /** The address of the page. */
  page(): string;
}

export class Sidecar implements Public.Sidecar {
  readonly version = "1";
  readonly #world: World;
  #options: Public.Options = own<Public.Options>();
  #addresses: Addresses | undefined;
  readonly #tokens: Tokens;
  #context: { label: string; text: string } | undefined;
  #mounts = 0;
  #era = 0;
  #chat: Chat | undefined;
  #panel: Panel | undefined;
  readonly #listeners = new Map<string, Set<(detail: never) => void>>();

  constructor(world: World) {
    this.#world = world;
    this.#tokens = new Tokens(world.now);
  }

  get isOpen(): boolean {
    return this.#panel?.isOpen ?? false;
  }

  push(f: (sidecar: Public.Sidecar) => void): void {
    f(this);
  }

  mount(options: Public.Options = {}): Public.Mounted {
    this.configure(options);
    const era = this.#era;
    this.#mounts++;
    if (!this.#panel) this.#appear();
    let mounted = true;
    return {
      unmount: () => {
        if (!mounted || era !== this.#era) return;
        mounted = false;
        if (--this.#mounts === 0) this.unmount();
      },
    };
  }

  unmount(): void {
    this.#era++;
    this.#mounts = 0;
    this.#chat?.close();
    this.#panel?.remove();
    this.#chat = undefined;
    this.#panel = undefined;
  }

  configure(given: Public.Options): void {
    const before = this.#options;
    const options = own<Public.Options>(given);
    const next = own<Public.Options>(before, options);
    this.#addresses = addressesOf(next, this.#world.script, this.#world.page());
    this.#options = next;
    if (options.getToken !== undefined) this.#tokens.from(options.getToken);
    if (options.token !== undefined) this.#tokens.set(options.token);
    if (this.#chat && (next.org ?? "") !== (before.org ?? "")) this.#chat.fresh();
    this.#panel?.configure(next);
    void this.#chat?.restore();
  }

  open(): void {
    this.#panel?.open();
  }

  close(): void {
    this.#panel?.close();
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  async send(message: string): Promise<void> {
    if (message.trim() === "") throw new Error("The message is empty.");
    const chat = this.#mounted();
    this.open();
    chat.send(message);
  }

  prefill(text: string): void {
    this.#mounted();
    this.#panel?.prefill(text);
  }

  newConversation(): void {
    this.#chat?.fresh();
  }

  setToken(token: string | null): void {
    this.#tokens.set(token);
    if (token === null) this.#chat?.forget();
    else void this.#chat?.restore();
  }

  setOrg(org: string | null): void {
    this.configure({ org: org ?? "" });
  }

  setContext(context: Public.Context | null): void {
    if (context === null) this.#context = undefined;
    else {
      const text = JSON.stringify(context.data);
      if (typeof context.label !== "string" || text === undefined) throw new TypeError("Parley: the context needs a label and data that is JSON.");
      if (text.length > longestContext) throw new RangeError(`Parley: the page's context has ${text.length} characters, and may have ${longestContext}.`);
      this.#context = { label: context.label, text };
    }
    this.#panel?.context(this.#context?.label);
  }

  on<T extends keyof Public.Events>(type: T, f: (detail: Public.Events[T]) => void): () => void {
    const set = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, set.add(f));
    return () => void set.delete(f);
  }

  #emit<T extends keyof Public.Events>(type: T, detail: Public.Events[T]): void {
    for (const f of [...(this.#listeners.get(type) ?? [])] as ((detail: Public.Events[T]) => void)[]) {
      try {
        f(detail);
      } catch (cause) {
        reportError(cause); // the host page's mistake is not ours
      }
    }
  }

  #mounted(): Chat {
    if (!this.#chat) throw new Error("Parley: the sidecar is not on the page. Call mount().");
    return this.#chat;
  }

  #appear(): void {
    const chat = new Chat(
      this.#world,
      {
        addresses: () => this.#addresses ?? addressesOf(this.#options, this.#world.script, this.#world.page()),
        org: () => this.#options.org ?? "",
        apiBaseUrl: () => this.#options.apiBaseUrl ?? "",
        who: () => this.#options.user ?? this.#tokens.who,
        context: () => (this.#context && this.#panel?.withContext ? `What the user's page shows, as data:\n${this.#context.text}` : ""),
        ready: () => this.#tokens.known(),
      },
      this.#tokens,
    );
    const panel = new Panel(chat, this.#options, (open) => this.#emit(open ? "open" : "close", undefined));
    chat.happened = (h) => {
      panel.announce(h);
      this.#tell(h);
    };
    this.#chat = chat;
    this.#panel = panel;
    panel.context(this.#context?.label);
    panel.appear();
  }

  #tell(h: Happening): void {
    switch (h.type) {
      case "confirm":
      case "write": {
        const { id, title, summary, method, path, body, state } = h.card;
        return this.#emit(h.type, { id, title, summary, method, path, ...(body !== undefined && { body }), state });
      }
      case "action":
        return this.#emit("action", { label: h.label, state: h.state });
      case "error":
        return this.#emit("error", { message: h.message });
      default:
        return this.#emit(h.type, { text: h.text });
    }
  }
}
