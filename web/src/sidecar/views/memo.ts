// Draws a component again only when its properties are others, as React.memo does; preact/compat has it, and much else.

import { Component, h, type ComponentType } from "preact";

export function memo<P extends object>(Inner: ComponentType<P>): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const keys = Object.keys(next) as (keyof P)[];
      return keys.length !== Object.keys(this.props).length || keys.some((k) => next[k] !== (this.props as Readonly<P>)[k]);
    }
    override render() {
      return h(Inner, this.props as P);
    }
  } as unknown as ComponentType<P>;
}
