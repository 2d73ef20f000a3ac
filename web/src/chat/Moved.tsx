import type { Move } from "../session/records.ts";
import { runtimeName, runtimeOf } from "./settings/runtimes.ts";
import { useChat } from "./use-chat.ts";

/** The place in a conversation from which on another runtime carries out its turns. */
export function Moved({ to }: { to: Move | undefined }) {
  const app = useChat((s) => s.app);
  const runtime = to && runtimeOf(app, to.runtime);
  if (!runtime) return null;
  const name = `${runtime === "claude" ? "the " : ""}${runtimeName(runtime)}`;
  return (
    <p data-moved className="my-2 text-center text-sm text-text-muted">
      From here on, {name} carries out the turns.
    </p>
  );
}
