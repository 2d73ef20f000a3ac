/**
 * Where rewinds stand between exchanges: at i those before the i-th, at the end those after all. Of those before
 * the first exchange that is drawn, only the ones after its beginning are known to belong there, unless it is the
 * first of all.
 */
export function between<R extends { seq: number }>(rewinds: readonly R[], exchanges: readonly { seq?: number }[], all: boolean): R[][] {
  const places: R[][] = Array.from({ length: exchanges.length + 1 }, () => []);
  for (const r of rewinds) places[placeOf(r.seq, exchanges, all)]?.push(r);
  return places;
}

/** Where an event of the session stands between exchanges; -1: it is not known to stand there. */
export function placeOf(seq: number, exchanges: readonly { seq?: number }[], all: boolean): number {
  const found = exchanges.findIndex((x) => x.seq === undefined || x.seq > seq);
  const at = found < 0 ? exchanges.length : found;
  return at > 0 || all || exchanges.length === 0 ? at : -1;
}
