import { useMemo } from "react";

import { Artifacts } from "../../chat/artifacts/Artifacts.tsx";
import { Listed } from "../../chat/listed.ts";
import { StepLog } from "../../chat/turn/StepLog.tsx";
import { PartsContext, useChat, type Parts } from "../../chat/use-chat.ts";
import { Files } from "../../files/files.ts";
import { FilesContext } from "../../files/use-files.ts";
import { WithFiles } from "../../files/WithFiles.tsx";
import type { Exchange } from "../../session/exchange.ts";
import { artifactsOf } from "../../session/steps.ts";
import { Next } from "../../chat/FollowUps.tsx";
import type { View } from "./view.ts";

/** The page of any app. */
const view: View = (client, app) => {
  const chat = new Listed({ client, app }, { title: app, greeting: "", placeholder: "Write a message…", pin: "We measure in metres." });
  const files = new Files({ client, app, storage: localStorage });
  chat.start();
  void files.start();
  return {
    chat,
    page: (
      <PartsContext value={parts}>
        <FilesContext value={files}>
          <WithFiles chat={chat} />
        </FilesContext>
      </PartsContext>
    ),
  };
};
export default view;

function Figures({ exchange }: { exchange: Exchange }) {
  const events = useChat((s) => s.opened.records.events.get(exchange.id));
  const artifacts = useMemo(() => artifactsOf(events ?? []), [events]);
  return <Artifacts artifacts={artifacts} />;
}

/** The sources of an answer, and what it proposes to ask next. */
function Below({ exchange: x, last }: { exchange: Exchange; last: boolean }) {
  const sources = x.citations ?? [];
  const next = last ? (x.followUps ?? []) : [];
  if (sources.length + next.length === 0) return null;
  return (
    <div className="flex flex-col gap-3">
      {sources.length > 0 && (
        <ul aria-label="Sources" className="flex flex-col gap-1 text-xs text-text-muted">
          {sources.map((c, i) => (
            <li key={i} className="wrap-anywhere">
              <span className="text-text-primary">{c.source}</span> {c.ref}
              {c.quote && <q className="ml-1">{c.quote}</q>}
            </li>
          ))}
        </ul>
      )}
      <Next questions={next} />
    </div>
  );
}

const parts: Parts = { Steps: StepLog, Figures, Below };
