import { useEffect, useRef, useState } from "react";

import { agentName, isOpen, type Exchange } from "../session/exchange.ts";
import { awaitedBy } from "../session/inbox.ts";
import { isWaiting } from "../session/records.ts";
import { sentence } from "../ui/text.ts";

/** Longer answers are not read out completely: they are on the page. */
const most = 600;

/** Tells people who do not see the page what happens: the agents at work, and the complete answer, once. */
export function Announcer({ exchange }: { exchange: Exchange | undefined }) {
  const [text, setText] = useState("");
  const before = useRef<{ id?: string | undefined; open: boolean; agent: string; asked: string }>({ open: false, agent: "", asked: "" });
  useEffect(() => {
    const was = before.current;
    const open = exchange !== undefined && isOpen(exchange.standing);
    const agent = agentName(exchange?.steps.findLast((s) => s.type === "agent_start")?.agent);
    const asked = exchange?.asked.find(isWaiting)?.interaction;
    if (asked && asked.id !== was.asked) setText(awaitedBy(asked) === "client" ? `Waits for a client: ${asked.title}` : `Your answer is needed: ${asked.title}`);
    else if (exchange && open && agent !== "" && agent !== was.agent) setText(`${agent} agent activated`);
    else if (exchange && !open && was.open) setText(endOf(exchange));
    else if (!asked && was.asked !== "") setText(""); // it is answered
    before.current = { id: exchange?.id, open, agent: open ? agent : "", asked: asked?.id ?? "" };
  }, [exchange]);
  return (
    <div role="log" aria-live="polite" aria-atomic="true" aria-label="What happens" className="sr-only">
      {text}
    </div>
  );
}

function endOf(x: Exchange): string {
  switch (x.standing) {
    case "completed":
      return `Answer: ${x.answer.length > most ? `${x.answer.slice(0, most)}… The rest is on the page.` : x.answer}`;
    case "cancelled":
      return "Stopped.";
    case "interrupted":
      return "The answer was interrupted.";
    default:
      return `No answer. ${sentence(x.error?.message ?? x.reason)}`;
  }
}
