import type { RewindView } from "../../api/types.gen.ts";

/**
 * Where rewinds stand between exchanges: at i those before the i-th, at the end those after all. Of those before
 * the first exchange that is drawn, only the ones after its beginning are known to belong there, unless it is the
 * first of all.
 */
export function between(rewinds: readonly RewindView[], exchanges: readonly { seq?: number }[], all: boolean): RewindView[][] {
  const places: RewindView[][] = Array.from({ length: exchanges.length + 1 }, () => []);
  for (const r of rewinds) {
    let at = exchanges.findIndex((x) => x.seq === undefined || x.seq > r.seq);
    if (at < 0) at = exchanges.length;
    if (at > 0 || all || exchanges.length === 0) places[at]?.push(r);
  }
  return places;
}
