// The states of a conversation that a real server shows rarely, as logs for a Stage.

import type { Event, Interaction } from "../src/api/types.gen.ts";
import { asking, inAnHour } from "./logs.ts";

type Entry = { after: number; type: Event["type"]; agent?: string; turn?: string; data: unknown };

const usage = { input_tokens: 640, output_tokens: 52 };
const model = "anthropic/claude-opus";

/** One turn in home: its start, and what follows in ms after it. */
function turnOf(id: string, message: string, entries: readonly Entry[], more: object = {}): Entry[] {
  const data = { origin: "user", message: { role: "user", parts: [{ type: "text", text: message }] }, budgets: {}, app: "d", by: "local", client: "api", ...more };
  return [{ after: 0, type: "turn.started" as const, data }, ...entries].map((e) => ({ turn: `T-${id}`, ...e }));
}

/** The log of a session in home with turns one after another, each of less than 100 s. */
function logOf(id: string, ...turns: readonly Entry[][]): Event[] {
  const begun = Date.now() - 3600_000;
  const created = { at: 0, type: "session.created", data: { app: "home", user: "local", budgets: {}, memory: {}, busy: "reject", max_open_turns: 2 } };
  const all = [created, ...turns.flatMap((entries, n) => entries.map(({ after, ...e }) => ({ at: n * 100_000 + after, ...e })))];
  return all.map(({ at, ...e }, i) => ({ session: `S-${id}`, seq: i + 1, time: new Date(begun + at).toISOString(), ...e }) as Event);
}

const agent = "home";
const begins = { after: 5, agent, type: "agent.started" as const, data: { name: "home" } };
const asks = (after: number, call: string) => ({ after, agent, type: "model.started" as const, data: { call, model, context: "x", reserved: usage } });
const says = (after: number, call: string, text: string, tools: readonly { call: string; name: string; input: unknown }[] = []) => ({
  after,
  agent,
  type: "model.replied" as const,
  data: { call, model, parts: [{ type: "text", text }, ...tools.map((t) => ({ type: "tool_call", ...t }))], usage, ttft_ms: 350, took_ms: 900 },
});
const calls = (after: number, call: string, name: string, input: unknown) => ({ after, agent, type: "tool.requested" as const, data: { call, name, input } });
const runs = (after: number, call: string, name: string, input: unknown, more: object = {}) => ({
  after,
  agent,
  type: "tool.started" as const,
  data: { call, name, input, effect: "write", deadline: new Date(Date.now() + 60_000).toISOString(), attempt: 1, ...more },
});
const ends = (after: number, call: string, name: string, more: object) => ({ after, agent, type: "tool.ended" as const, data: { call, name, outcome: "ok", output: "", took_ms: 400, ...more } });
const completes = (after: number, message: string) => ({ after, type: "turn.completed" as const, data: { response: { message }, usage } });

const service = { service: "light.turn_on", target: { entity_id: "light.bedroom_ceiling" } };
const offer = (id: string): Partial<Interaction> & Pick<Interaction, "kind" | "title"> => ({
  kind: "client", tool: "read_calendar", title: "A client must run read_calendar", input: { from: "2026-03-01", to: "2026-03-07", calendar: "Family" }, choices: ["deny"], expires_at: inAnHour(), id: `I-${id}`,
});

/** What waits, each in a session of its own. */
export const open: readonly Event[][] = [
  asking("permission", "Turn on the bedroom ceiling light", { kind: "permission", tool: "ha_call_service", title: "Turn on Bedroom ceiling?", detail: "light.turn_on on light.bedroom_ceiling", input: service, choices: ["allow", "allow_session", "deny"], expires_at: inAnHour() }),
  asking("permission-plain", "Send the report to Ana and to everybody who was in the meeting", { kind: "permission", tool: "send_mail", title: "Allow send_mail?", input: { to: "ana@example.com, everybody-who-was-in-the-meeting@example.com", subject: "Report", body: "Hello Ana,\n\nhere is the report that you asked for.\n\nBest" }, choices: ["allow", "allow_session", "deny"] }),
  asking("confirmation", "Move Ana's meeting to Friday", { kind: "confirmation", tool: "update_meeting", title: "Move the meeting “Budget” with Ana to Friday, 6 March?", text: "Everybody who was invited gets a message.", input: { id: "m1", day: "2026-03-06" }, choices: ["allow", "deny"] }),
  asking("credential", "Read my calendar", { kind: "credential", tool: "read_calendar", title: "read_calendar needs a secret of yours", text: "It goes to calendar.example.com, and is kept nowhere.", credentials: ["CALENDAR_TOKEN"], choices: ["answered", "deny"] }),
  asking("question", "Book a table", {
    kind: "question", title: "Two things before I book.",
    questions: [
      { question: "When do you want to come?", header: "Time", options: [{ label: "At 19:00", description: "In the garden, if it does not rain" }, { label: "At 21:30" }] },
      { question: "Which dishes should be ready?", header: "Dishes", multi_select: true, options: [{ label: "Soup" }, { label: "A very long name of a dish that does not fit on one line of a phone" }] },
    ],
  }),
  asking("form", "Sign me up", {
    kind: "question", title: "crm asks: Who are you?", text: "The server crm asks for this.", choices: ["answered", "deny"],
    questions: [
      { question: "Your name", header: "Name", options: [] },
      { question: "Size", header: "Size", options: [{ label: "Small" }, { label: "Large" }, { label: "Leave it out" }] },
    ],
  }),
  asking("link", "Pay for it", { kind: "question", title: "crm asks: Pay first.", text: "Open this page, and come back:\nhttps://pay.example.com/orders/4711?token=abc", url: "https://pay.example.com/orders/4711?token=abc", choices: ["answered", "deny"], questions: [{ question: "Have you done it?", header: "Page", options: [{ label: "Done" }] }] }),
  asking("client-offered", "What is in my calendar this week?", offer("client-offered")),
  asking("unknown", "Turn on the bedroom ceiling light", { kind: "unknown", tool: "ha_call_service", title: "Did “Turn on Bedroom ceiling” happen?", text: "The server stopped while it was being done.", input: service, choices: ["happened", "did_not", "again", "leave"] }),
];

/** What became of turns, in one session. */
export const past: Event[] = logOf(
  "past",
  turnOf("claimed", "What is in my calendar this week?", [
    begins,
    asks(10, "m1"),
    says(900, "m1", "I look into your calendar.", [{ call: "c1", name: "read_calendar", input: { from: "2026-03-01" } }]),
    { after: 910, agent, type: "interaction.opened", data: { ...offer("claimed"), session: "S-past", turn: "T-claimed", call: "c1", agent, opened_at: "" } },
    { after: 2000, agent, type: "interaction.answered", data: { id: "I-claimed", answer: { choice: "claimed" }, by: "local", client: "api" } },
    runs(2000, "c1", "read_calendar", { from: "2026-03-01" }, { run: "client", effect: "read", claim: { interaction: "I-claimed", by: "local", client: "api", proof: "p" } }),
    ends(9000, "c1", "read_calendar", { output: "Three appointments." }),
    completes(9100, "You have three appointments."),
  ]),
  turnOf("late", "And next week?", [
    begins,
    { after: 910, agent, type: "interaction.opened", data: { ...offer("late"), session: "S-past", turn: "T-late", call: "c2", agent, opened_at: "" } },
    { after: 60_000, agent, type: "interaction.expired", data: { id: "I-late", reason: "no client claimed it in time" } },
    ends(60_001, "c2", "read_calendar", { outcome: "error", output: "no client claimed it in time" }),
    completes(60_100, "Nobody could look into your calendar."),
  ]),
  turnOf("direct", "", [
    runs(10, "c1", "ha_call_service", service),
    ends(420, "c1", "ha_call_service", { output: '{"changed":["light.bedroom_ceiling"]}' }),
    completes(430, '{"changed":["light.bedroom_ceiling"]}'),
  ], { origin: "call", message: { role: "user", parts: [{ type: "text", text: `ha_call_service ${JSON.stringify(service)}` }] }, call: { call: "c1", name: "ha_call_service", input: service } }),
  turnOf("hooks", "Turn off everything", [
    begins,
    asks(10, "m1"),
    says(900, "m1", "I turn it off.", [{ call: "c1", name: "ha_call_service", input: service }]),
    calls(905, "c1", "ha_call_service", service),
    { after: 950, agent, type: "hook.ran", data: { event: "PreToolUse", name: "check-hours.sh", call: "c1", decision: "deny", reason: "not after 22:00", took_ms: 38 } },
    ends(960, "c1", "ha_call_service", { outcome: "denied", output: "not after 22:00" }),
    { after: 970, agent, type: "hook.ran", data: { event: "PostToolUse", name: "https://audit.example.com/hook", call: "c1", error: { code: "unavailable", message: "the service cannot be reached" }, took_ms: 8 } },
    asks(1000, "m2"),
    says(2100, "m2", "I may not turn it off after 22:00."),
    { after: 2110, type: "hook.ran", data: { event: "Stop", name: "notify.sh", message: "The household was told.", took_ms: 12 } },
    completes(2120, "I may not turn it off after 22:00."),
  ]),
  turnOf("failed", "Why did the lights flicker?", [
    begins,
    asks(10, "m1"),
    { after: 500, agent, type: "model.failed", data: { call: "m1", error: { code: "unavailable", message: "claude-opus is overloaded" }, retry: true, usage: {} } },
    asks(1500, "m2"),
    { after: 1900, agent, type: "model.failed", data: { call: "m2", error: { code: "unavailable", message: "claude-opus is overloaded" }, usage: {} } },
    { after: 1910, type: "turn.failed", data: { error: { code: "unavailable", message: "claude-opus is overloaded", hint: "try again in a minute, or choose another model" }, usage } },
  ]),
  turnOf("budget", "Explain every light of the house", [
    begins,
    asks(10, "m1"),
    says(900, "m1", "I look at each of them.", [{ call: "c1", name: "index_search", input: { query: "light" } }]),
    calls(905, "c1", "index_search", { query: "light" }),
    runs(906, "c1", "index_search", { query: "light" }, { effect: "read" }),
    ends(1200, "c1", "index_search", { output: "14 lights" }),
    { after: 1210, type: "budget.reached", data: { name: "tokens", limit: 1000, used: 692, needs: 1200 } },
    { after: 1220, type: "turn.failed", data: { error: { code: "budget_tokens", message: "the turn reached its budget of tokens: 692 of 1000 are used, and the next call may take 1200", hint: "ask for less at once, or raise the app's budgets" }, response: { message: "There are 14 lights." }, usage } },
  ]),
  turnOf("resumed", "Why did the lights flicker?", [
    begins,
    asks(10, "m1"),
    says(900, "m1", "I look at the log.", [{ call: "c1", name: "history_get", input: { entity_id: "light.bedroom_ceiling" } }]),
    calls(905, "c1", "history_get", { entity_id: "light.bedroom_ceiling" }),
    runs(906, "c1", "history_get", { entity_id: "light.bedroom_ceiling" }, { effect: "read" }),
    { after: 64_000, type: "turn.interrupted", data: { reason: "the server stopped", resumes: true, last: new Date(Date.now() - 3600_000 + 600_906).toISOString() } },
    { after: 64_010, type: "turn.resumed", data: { attempt: 1, auto: true } },
    runs(64_020, "c1", "history_get", { entity_id: "light.bedroom_ceiling" }, { effect: "read", attempt: 2 }),
    ends(64_300, "c1", "history_get", { output: "on 22:34" }),
    asks(64_310, "m2"),
    says(65_400, "m2", "The voltage dropped at 22:34."),
    completes(65_410, "The voltage dropped at 22:34."),
  ]),
  turnOf("expired", "Turn on the bedroom light", [begins, asks(10, "m1"), { after: 900, type: "turn.expired", data: { reason: "nobody answered within a day", usage } }]),
  turnOf("cancelled", "Explain every light of the house", [begins, asks(10, "m1"), { after: 900, agent, type: "model.failed", data: { call: "m1", error: { code: "cancelled", message: "the call was cut off" }, partial: "The house has", usage: {} } }, { after: 910, type: "turn.cancelled", data: { reason: "stopped on the page", by: "local", response: { message: "The house has" }, usage } }]),
  turnOf("interrupted", "Why did the lights flicker?", [begins, asks(10, "m1"), says(900, "m1", "I look at the log.", [{ call: "c1", name: "history_get", input: { entity_id: "light.bedroom_ceiling" } }]), { after: 5000, type: "turn.interrupted", data: { reason: "the server stopped" } }]),
);
