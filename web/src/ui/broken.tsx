import { Button } from "./button.tsx";

/**
 * Shown instead of a part of the page that could not be rendered. Nothing is lost: the data is
 * in the server's log.
 */
export function Broken({ what }: { what: string }) {
  return (
    <div role="alert" className="flex min-h-0 flex-1 flex-col items-center justify-center gap-4 p-6 text-center text-sm text-text-primary">
      <p className="max-w-md">
        {what} cannot be shown. <span className="text-text-muted">Nothing is lost: it is kept on the server. Reloading the page may help, especially after an update of the server.</span>
      </p>
      <Button onClick={() => location.reload()}>Reload</Button>
    </div>
  );
}
