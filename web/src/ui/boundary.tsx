import { Component, type ReactNode } from "react";

interface Props {
  /** What stands there when the children cannot be drawn. */
  fallback: ReactNode;
  /** The children are tried again when this changes. */
  retry?: unknown;
  children: ReactNode;
}

/** Keeps what cannot be drawn from taking the rest of the page with it. */
export class Boundary extends Component<Props, { failed: boolean; retry: unknown }> {
  override state = { failed: false, retry: this.props.retry };

  static getDerivedStateFromError(): { failed: boolean } {
    return { failed: true };
  }

  static getDerivedStateFromProps(props: Props, state: { failed: boolean; retry: unknown }) {
    return props.retry === state.retry ? null : { failed: false, retry: props.retry };
  }

  override render(): ReactNode {
    return this.state.failed ? this.props.fallback : this.props.children;
  }
}
