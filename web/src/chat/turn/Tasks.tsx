import { LongText } from "../../ui/long-text.tsx";
import { tame } from "../../ui/tame.ts";
import type { Task } from "./tools.ts";

const states: Record<Task["status"], { sign: string; said: string }> = {
  completed: { sign: "✓", said: "done: " },
  in_progress: { sign: "▸", said: "in progress: " },
  pending: { sign: "○", said: "to do: " },
};

/** The list of tasks that an agent keeps. */
export function Tasks({ tasks }: { tasks: readonly Task[] | undefined }) {
  if (!tasks || tasks.length === 0) return null;
  return (
    <ul className="my-1 flex flex-col">
      {tasks.map((t, i) => (
        <li key={i} data-task={t.status} className={`flex gap-2 ${t.status === "in_progress" ? "text-text-primary" : ""}`}>
          <span aria-hidden="true" className={`w-3 shrink-0 text-center ${t.status === "completed" ? "text-added" : t.status === "in_progress" ? "text-link" : ""}`}>
            {states[t.status].sign}
          </span>
          <span className="sr-only">{states[t.status].said}</span>
          <span className="min-w-0">
            <LongText text={tame(t.text)} />
          </span>
        </li>
      ))}
    </ul>
  );
}
