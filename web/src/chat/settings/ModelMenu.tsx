import { useEffect, useState } from "react";

import type { ModelInfo } from "../../api/client.ts";
import { Spark } from "../../ui/icons.tsx";
import { Menu, MenuChoice } from "../../ui/menu.tsx";
import { modelName } from "../facts.ts";
import { useActions, useChat } from "../use-chat.ts";

/** Chooses the model that answers, if the app permits it. */
export function ModelMenu({ className }: { className: string }) {
  const chat = useActions();
  const app = useChat((s) => s.app);
  const model = useChat((s) => s.opened.records.model);
  const [models, setModels] = useState<readonly ModelInfo[]>([]);
  const open = app !== undefined && app.fixed_model !== true;
  useEffect(() => {
    if (!open) return;
    const stop = new AbortController();
    chat.client.models(stop.signal).then(setModels, () => undefined); // without them there is no choice
    return () => stop.abort();
  }, [open, chat]);
  const others = choices(models, app?.model.name ?? "", model);
  if (!open || others.length === 0) return null;
  const own = nameOf(app.model.name);
  return (
    <Menu align="start" label={`Model: ${nameOf(model || app.model.name)}`} text={nameOf(model || app.model.name)} className={`${className} min-w-0 ${model ? "text-link" : "text-text-muted"}`} icon={<Spark size={14} />}>
      <MenuChoice icon={<Spark size={16} />} hint="The model that the app is made for." chosen={model === ""} onSelect={() => void chat.setModel("")}>
        {own}
      </MenuChoice>
      {others.map((name) => (
        <MenuChoice key={name} icon={<Spark size={16} />} hint={name} chosen={name === model} onSelect={() => void chat.setModel(name)}>
          {nameOf(name)}
        </MenuChoice>
      ))}
    </Menu>
  );
}

/** The models that can be chosen besides the app's own. Scripts of other apps are left out: they cannot answer here. */
export function choices(models: readonly ModelInfo[], own: string, chosen: string): string[] {
  const names = models.filter((m) => !m.scripted || m.name === chosen).map((m) => m.name);
  if (chosen !== "" && !names.includes(chosen)) names.push(chosen);
  return names.filter((name) => name !== own);
}

const nameOf = (model: string): string => modelName(model) || "Demo script";
