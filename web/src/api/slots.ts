// A browser opens six HTTP/1.1 connections to one host, over all tabs. A stream keeps one for
// hours, so the tabs share a few slots. Only a tab with a slot may stream; others poll.
//
// A slot is a lease in localStorage, which its holder renews. Web Locks would do the same with
// less, but browsers have them only on HTTPS and localhost, and a house's server is often
// neither. Two tabs may take the same slot in the same moment. The later one keeps it, and the
// earlier one notices at its next renewal. Meanwhile there is one connection too many, for
// which six leave room.

/** The part of a Storage that is used. */
export type Shelf = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Streams of sessions, and of houses: at most four over all tabs. Two connections stay free for requests. */
const sizes = { session: 3, house: 1 };
export type Kind = keyof typeof sizes;

const renewEvery = 2000;
/** The slot of a tab that ended without releasing it is free after this many ms. */
const lease = 10_000;

export class Slots {
  readonly #shelf: Shelf;
  readonly #now: () => number;
  readonly #held = new Set<() => void>();

  constructor(shelf: Shelf = memory(), now: () => number = Date.now) {
    this.#shelf = shelf;
    this.#now = now;
  }

  /**
   * Takes a free slot and returns what releases it, which may be called again; undefined if none
   * is free. When another tab turns out to have the slot, it is released and lost is called.
   */
  take(kind: Kind, lost: () => void): (() => void) | undefined {
    for (let n = 0; n < sizes[kind]; n++) {
      const key = `parley.slot.${kind}.${n}`;
      if (this.#holder(key) === "") return this.#hold(key, lost);
    }
    return undefined;
  }

  /** Releases all slots: the page is going away. */
  close(): void {
    for (const release of [...this.#held]) release();
  }

  #hold(key: string, lost: () => void): () => void {
    const mine = Math.random().toString(36).slice(2);
    const renew = () => this.#write(key, `${mine} ${this.#now() + lease}`);
    renew();
    const timer = setInterval(() => {
      const holder = this.#holder(key);
      // After a sleep, the own lease may have expired without having been taken.
      if (holder === mine || holder === "") return renew();
      release();
      lost();
    }, renewEvery);
    const release = () => {
      if (!this.#held.delete(release)) return;
      clearInterval(timer);
      if (this.#holder(key) === mine) this.#write(key, undefined);
    };
    this.#held.add(release);
    return release;
  }

  /** The holder of a slot; "" if it is free. */
  #holder(key: string): string {
    const [holder = "", until = ""] = (this.#read(key) ?? "").split(" ");
    const left = Number(until) - this.#now();
    return left > 0 && left <= lease ? holder : ""; // a later end means that the clock was set back
  }

  #read(key: string): string | null {
    try {
      return this.#shelf.getItem(key);
    } catch {
      return null;
    }
  }

  #write(key: string, value: string | undefined): void {
    try {
      if (value === undefined) this.#shelf.removeItem(key);
      else this.#shelf.setItem(key, value);
    } catch {
      // The storage is full or forbidden. The slot stays free for others, as it was before there were slots.
    }
  }
}

/** The slots of all tabs; without localStorage, of this one. */
export function sharedSlots(): Slots {
  let slots: Slots;
  try {
    slots = new Slots(localStorage);
  } catch {
    slots = new Slots();
  }
  addEventListener("pagehide", () => slots.close());
  return slots;
}

function memory(): Shelf {
  const kept = new Map<string, string>();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  };
}
