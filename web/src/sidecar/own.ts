// Pages may have polluted Object.prototype: by an error in a script of theirs, somebody else decides what every
// object has. What the panel reads as a setting, sends as a request or draws must be its own.

import { options, type VNode } from "preact";

/** A copy with the own fields of some objects, and no prototype. The later ones win. */
export function own<T extends object>(...from: (Partial<T> | undefined)[]): T {
  const all = Object.create(null) as T;
  for (const one of from) if (one) for (const key of Object.keys(one)) all[key as keyof T] = one[key as keyof T] as T[keyof T];
  return all;
}

const inherited = Object.prototype as unknown as Record<string, unknown>;

let drawn = false;

/** Has Preact, which looks at inherited properties too, draw only what the panel has set. */
export function drawOwn(): void {
  if (drawn) return;
  drawn = true;
  const before = options.vnode;
  options.vnode = (vnode: VNode) => {
    if (vnode.type === null || typeof vnode.props !== "object") return before?.(vnode); // a text is its own props
    const props = own<Record<string, unknown>>(vnode.props as Record<string, unknown>);
    for (const key of Object.keys(props)) if (Object.hasOwn(inherited, key) && inherited[key] === props[key]) delete props[key];
    vnode.props = props as typeof vnode.props;
    before?.(vnode);
  };
}
