import { useActions, useChat } from "../use-chat.ts";
import type { Asked } from "../../session/records.ts";
import { Card } from "./Card.tsx";
import { factsOf } from "./logic.ts";

/** A card within its turn in the chat. The log says how it ended. */
export default function InteractionCard({ asked }: { asked: Asked }) {
  const chat = useActions();
  const events = useChat((s) => s.opened.records.events.get(asked.interaction.turn));
  return (
    <Card
      inPlace
      asked={asked}
      facts={factsOf(asked.interaction, events)}
      onAnswer={(answer, credentials) => chat.answer(asked.interaction.id, answer, credentials)}
    />
  );
}
