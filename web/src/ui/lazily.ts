import { lazy, type ComponentType } from "react";

/** A try, and the waits before the next ones, in ms: together longer than a server takes to start. */
const waits = [300, 600, 1200, 2500, 5000];

/**
 * A component that is loaded late. If it cannot be loaded, it is requested again, because the server may just
 * be starting.
 */
export function lazily<P>(load: () => Promise<{ default: ComponentType<P> }>) {
  return lazy(() => again(load));
}

export async function again<T>(load: () => Promise<T>, pause: (ms: number) => Promise<void> = (ms) => new Promise((done) => setTimeout(done, ms))): Promise<T> {
  for (const ms of waits) {
    try {
      return await load();
    } catch {
      await pause(ms);
    }
  }
  return load();
}
