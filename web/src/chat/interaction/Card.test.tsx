import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, test } from "vitest";

import type { Interaction } from "../../api/types.gen.ts";
import type { Asked } from "../../session/records.ts";
import { Card } from "./Card.tsx";

const ask = (i: Partial<Interaction>): Interaction => ({ id: "i", session: "s", turn: "t", kind: "permission", title: "Allow ha_call_service: light.turn_on?", opened_at: "", ...i });
const html = (asked: Asked) => renderToStaticMarkup(<Card asked={asked} onAnswer={async () => undefined} />);
const text = (asked: Asked) => html(asked).replace(/<svg.*?<\/svg>/g, "").replace(/<[^>]+>/g, "|").replace(/\|+/g, "|");

describe("a card", () => {
  test("of a permission shows the call and the possible answers", () => {
    const out = text({ seq: 1, interaction: ask({ agent: "lead/home#2", tool: "ha_call_service", input: { service: "light.turn_on" }, choices: ["allow", "allow_session", "deny"] }) });
    expect(out).toBe("|Permission|·|home #2|Allow ha_call_service: light.turn_on?|service|light.turn_on|Allow once|Allow for this conversation|Deny…|Edit input…|");
  });

  test("of a permission asks in words, with the ids small beside them", () => {
    const interaction = ask({ title: "Turn off Desk lamp?", detail: "light.turn_off on light.desk", tool: "ha_call_service", input: { service: "light.turn_off" }, choices: ["allow"] });
    expect(text({ seq: 1, interaction })).toBe("|Permission|Turn off Desk lamp?|light.turn_off on light.desk|service|light.turn_off|Allow once|Edit input…|");
  });

  test("of a change shows it to the letter", () => {
    const shown = (said: string) => text({ seq: 1, interaction: ask({ text: said, choices: ["allow"] }) });
    expect(shown("it costs little")).toContain("|It costs little.|");
    expect(shown("the price is new\n\n-costs: 4\n+costs: 5")).toContain("|the price is new\n\n-costs: 4\n+costs: 5|");
  });

  test("of a call that no client claimed says so once", () => {
    const out = text({ seq: 1, interaction: ask({ kind: "client", title: "Read the calendar" }), expired: "no client claimed it in time" });
    expect(out.match(/no client claimed it/gi)).toHaveLength(1);
    expect(text({ seq: 1, interaction: ask({ kind: "client" }), expired: "the turn was cancelled" })).toContain("The turn was cancelled.");
  });

  test("of a confirmation takes a yes and a no, and no other input", () => {
    const out = text({ seq: 1, interaction: ask({ kind: "confirmation", title: "Send it?", tool: "send", input: { to: "Ana" } }) });
    expect(out).toBe("|Confirmation|·|send|Send it?|to|Ana|Yes, do it|No…|");
  });

  test("of a question has its options, and room for other words", () => {
    const out = html({ seq: 1, interaction: ask({ kind: "question", title: "When?", questions: [{ question: "When?", header: "Time", options: [{ label: "Now", description: "at once" }] }] }) });
    expect(out).toMatch(/type="radio"/);
    expect(out).toMatch(/Now.*at once.*Other/);
    expect(out).toMatch(/aria-label="Your own words for: When\?"/);
    expect(out, "no answer yet").toMatch(/type="submit"[^>]*disabled/);
  });

  test("of a plan shows it as the agent's messages are shown", () => {
    const questions = [{ question: "Carry out this plan?", header: "Plan", options: [{ label: "Yes" }, { label: "No, keep planning" }] }];
    const interaction = ask({ kind: "question", tool: "ExitPlanMode", title: "Carry out this plan?", text: "## First\n\n1. Read", questions, choices: ["answered", "deny"] });
    expect(html({ seq: 1, interaction })).toMatch(/aria-label="The plan".*First/s);
    expect(html({ seq: 1, interaction: { ...interaction, tool: "AskUserQuestion" } })).not.toContain("The plan\"");
  });

  test("of a form has a choice or a plain field for each of its questions", () => {
    const questions = [
      { question: "Your name", header: "Name", options: [] },
      { question: "Size", header: "Size", options: [{ label: "Small" }, { label: "Leave it out" }] },
    ];
    const out = html({ seq: 1, interaction: ask({ kind: "question", title: "crm asks: Who are you?", questions, choices: ["answered", "deny"] }) });
    expect(out.match(/<textarea/g)).toHaveLength(2);
    expect(out.match(/type="radio"/g), "no choice where there is nothing to choose from").toHaveLength(3);
    expect(out).toMatch(/Leave it out/);
    expect(out, "a label that the question begins with is not there twice").not.toMatch(/text-muted">Size</);
    expect(out).toMatch(/text-muted">Name</);
  });

  test("of a page to open has a link with its host, if it is one to follow", () => {
    const card = (url: string) => html({ seq: 1, interaction: ask({ kind: "question", title: "Pay first.", url, questions: [{ question: "Done?", header: "Page", options: [{ label: "Done" }] }] }) });
    expect(card("https://pay.example.com/x?y=1")).toMatch(/<a href="https:\/\/pay.example.com\/x\?y=1" target="_blank" rel="noopener noreferrer"[^>]*>Open the page of pay.example.com/);
    expect(card("https://päy.example.com/")).toMatch(/Open the page of xn--/);
    const long = html({ seq: 1, interaction: ask({ kind: "question", title: "Pay first.", text: "Pay there.\nhttps://pay.example.com/x", url: "https://pay.example.com/x" }) });
    expect(long.match(/pay.example.com\/x</g), "the whole address is shown, once").toHaveLength(1);
    for (const bad of ["javascript:alert(1)", "http://pay.example.com/", "https://you@pay.example.com/", "/x", "data:text/html,x"]) expect(card(bad)).not.toMatch(/<a /);
  });

  test("has a name and says what kind it is", () => {
    const out = html({ seq: 1, interaction: ask({}) });
    const [, id] = /aria-labelledby="([^"]+)"/.exec(out) ?? [];
    expect(out).toContain(`<h3 id="${id}"`);
  });

  test("of a credential has a field for each, which shows nothing and is not remembered", () => {
    const out = html({ seq: 1, interaction: ask({ kind: "credential", title: "crm needs CRM", credentials: ["CRM", "MAIL"], choices: ["answered", "deny"] }) });
    expect(out.match(/type="password"/g)).toHaveLength(2);
    expect(out.match(/autoComplete="off"/g)?.length).toBeGreaterThan(1);
    expect(out).toMatch(/Give it for this turn/);
  });

  test("of an unknown kind shows the choices", () => {
    const interaction = ask({ title: "Which key?", choices: ["deny", "later"] });
    (interaction as { kind: string }).kind = "riddle";
    expect(text({ seq: 1, interaction })).toMatch(/Which key\?\|Deny…\|later\|/);
  });

  test("that is closed shows its outcome, the person and the answer", () => {
    const out = text({ seq: 1, interaction: ask({}), answer: { choice: "deny", text: "Not at night." }, by: "ana", client: "mcp" });
    expect(out).toBe("|Denied| · Allow ha_call_service: light.turn_on? · by ana from another program|“|Not at night.|”|");
    expect(html({ seq: 1, interaction: ask({}), expired: "nobody answered in time" })).not.toMatch(/<button/);
  });

  test("never draws markup of what it is given", () => {
    const out = html({ seq: 1, interaction: ask({ title: "<img src=x onerror=alert(1)>", input: { a: "<script>" } }) });
    expect(out).not.toMatch(/<img|<script/);
  });
});
