import type { ComponentProps, ReactNode } from "react";

type Props = ComponentProps<"button">;

/** A button with only an icon; label is its accessible name. */
export function IconButton({ label, children, className = "", ...rest }: Props & { label: string; children: ReactNode }) {
  return (
    <button
      type="button"
      aria-label={label}
      title={label}
      className={`inline-flex size-8 shrink-0 items-center justify-center rounded-lg text-text-muted transition-colors hover:bg-hover hover:text-text-primary disabled:pointer-events-none disabled:opacity-40 [@media(pointer:coarse)]:size-11 ${className}`}
      {...rest}
    >
      {children}
    </button>
  );
}

const kinds = {
  plain: "border border-border text-text-primary hover:bg-hover",
  quiet: "border border-text-muted/40 text-text-primary hover:bg-text-muted/10",
  accent: "bg-accent text-on-accent hover:bg-accent-hover",
  danger: "border border-danger/60 text-danger hover:bg-danger-surface",
};

/** A busy button ignores clicks, and keeps the focus that a disabled one would lose. */
export function Button({ kind = "plain", className = "", busy = false, onClick, ...rest }: Props & { kind?: keyof typeof kinds; busy?: boolean }) {
  return (
    <button
      type="button"
      aria-disabled={busy || undefined}
      onClick={busy ? (e) => e.preventDefault() : onClick}
      className={`inline-flex h-9 items-center justify-center gap-2 rounded-lg px-3.5 text-sm font-medium transition-colors [@media(pointer:coarse)]:h-11 disabled:pointer-events-none disabled:opacity-50 aria-disabled:opacity-50 ${kinds[kind]} ${className}`}
      {...rest}
    />
  );
}
