// A client written from the text of the specification alone: the four endpoints, and the five types
// of event of the stream. It prints what it found as one line of JSON.
const [base, person] = process.argv.slice(2);
const headers = { "X-Notes-Person": person };

async function chat(message, session) {
  const body = new URLSearchParams({ message });
  if (session) body.set("session_id", session);
  const r = await fetch(base + "/api/claude/chat", { method: "POST", headers, body });
  if (!r.ok) throw new Error((await r.json()).detail);
  return r.json();
}

async function stream(message, session, on) {
  const r = await fetch(base + "/api/claude/chat-stream", {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify({ message, session_id: session ?? null }),
  });
  if (!r.ok) throw new Error((await r.json()).detail);
  let rest = "", text = "", id;
  for await (const chunk of r.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const e = JSON.parse(line);
      on(e);
      if (e.type === "text") text += e.delta;
      else if (e.type === "done") id = e.session_id;
      else if (e.type === "error") throw new Error(e.message);
      else if (e.type !== "status" && e.type !== "tool") throw new Error("an unknown event: " + line);
    }
  }
  return { text, id };
}

const events = [];
const first = await stream("What is on my shopping list?", undefined, (e) => events.push(e));
const kinds = events.map((e) => e.type).filter((k, i, all) => k !== all[i - 1]);
const read = events.find((e) => e.type === "tool" && e.name === "Read");
const second = await chat("Add milk to the shopping list", first.id);
const history = await (await fetch(base + "/api/claude/history?session_id=" + first.id, { headers })).json();
const other = await (await fetch(base + "/api/claude/history?session_id=" + first.id, { headers: { "X-Notes-Person": "sebastian" } })).json();
const cleared = await (await fetch(base + "/api/claude/clear", { method: "POST", headers, body: new URLSearchParams({ session_id: first.id }) })).json();
const after = await (await fetch(base + "/api/claude/history?session_id=" + first.id, { headers })).json();
const nobody = await fetch(base + "/api/claude/chat", { method: "POST", body: new URLSearchParams({ message: "hi" }) });
console.log(JSON.stringify({
  kinds, read: read?.input, status: events.filter((e) => e.type === "status").map((e) => e.message), text: first.text.includes("Oat milk"),
  same: second.session_id === first.id, keys: Object.keys(second).sort(), response: second.response.startsWith("I added Milk."),
  roles: history.history.map((m) => m.role), other, cleared, after, nobody: [nobody.status, (await nobody.json()).detail],
}));
