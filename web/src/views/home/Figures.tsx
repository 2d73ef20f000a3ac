import { useMemo } from "react";

import type { ArtifactRef } from "../../api/types.gen.ts";
import { useActions, useChat } from "../../chat/use-chat.ts";
import type { Exchange } from "../../session/exchange.ts";
import { File } from "../../ui/icons.tsx";
import { plotsOf } from "./chart.ts";
import { bytes } from "./format.ts";
import { fetchFirst, Picture } from "./Picture.tsx";
import { PlotFigure } from "./PlotFigure.tsx";

/** The artifacts of the tools: charts are drawn, pictures are shown, everything else is a download. */
export function Figures({ exchange }: { exchange: Exchange }) {
  const events = useChat((s) => s.opened.records.events.get(exchange.id));
  const { plots, pictures, files } = useMemo(() => plotsOf(events ?? []), [events]);
  if (plots.length + pictures.length + files.length === 0) return null;
  return (
    <div className="flex flex-col gap-3">
      {plots.map((p) => (
        <PlotFigure key={p.key} plot={p} turn={exchange.id} />
      ))}
      {pictures.map((a) => (
        <Picture key={a.id} artifact={a} />
      ))}
      {files.length > 0 && (
        <ul className="flex flex-wrap gap-2" aria-label="Files">
          {files.map((a) => (
            <FileLink key={a.id} artifact={a} />
          ))}
        </ul>
      )}
    </div>
  );
}

function FileLink({ artifact: a }: { artifact: ArtifactRef }) {
  const { client } = useActions();
  return (
    <li>
      <a
        href={client.artifact(a.id)}
        download={a.name}
        onClick={(e) => fetchFirst(e, client, a)}
        className="inline-flex h-9 items-center gap-2 rounded-lg border border-border px-3 text-sm hover:bg-hover [@media(pointer:coarse)]:h-11"
      >
        <File size={16} />
        <span className="max-w-60 truncate">{a.name}</span>
        <span className="text-xs text-text-muted">{bytes(a.size)}</span>
      </a>
    </li>
  );
}
