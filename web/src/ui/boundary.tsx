import { Component, type ReactNode } from "react";

interface Props {
  /** Shown if the children cannot be rendered. */
  fallback: ReactNode;
  /** The children are rendered again when this changes. */
  retry?: unknown;
  children: ReactNode;
}

/** Keeps a part that fails to render from taking down the rest of the page. */
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
