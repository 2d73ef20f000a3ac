import { Prompt } from "../../ui/icons.tsx";
import { Menu, MenuChoice } from "../../ui/menu.tsx";
import { useActions, useChat } from "../use-chat.ts";
import { runtimeName, runtimeOf, runtimesOf } from "./runtimes.ts";

/** Chooses what carries out the turns, if the app permits it. */
export function RuntimeMenu({ className }: { className: string }) {
  const chat = useActions();
  const app = useChat((s) => s.app);
  const own = useChat((s) => s.opened.records.runtime);
  const choices = runtimesOf(app);
  if (choices.length === 0) return null;
  const now = runtimeOf(app, own);
  const gone = app?.runtimes_missing?.[now] !== undefined;
  return (
    <Menu align="start" label={`Runtime: ${runtimeName(now)}${gone ? ", not available" : ""}`} text={runtimeName(now)} className={`${className} min-w-0 ${gone ? "text-danger" : now === app?.runtime ? "text-text-muted" : "text-link"}`} icon={<Prompt size={14} />}>
      {choices.map((r) => (
        <MenuChoice key={r.value} icon={<Prompt size={16} />} hint={r.hint} disabled={r.missing} chosen={r.value === own || (r.value === "" && own === app?.runtime)} onSelect={() => void chat.setRuntime(r.value)}>
          {r.name}
        </MenuChoice>
      ))}
    </Menu>
  );
}
