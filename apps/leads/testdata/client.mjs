// A client of /ws/codex, written from the specification of the wire alone. It says what it is told to,
// one chat after the other, and prints every frame. argv: URL, token, org.
const [, , url, token, orgId] = process.argv;
const socket = new WebSocket(url);
let sessionId, action;
const chat = (message) => socket.send(JSON.stringify({ type: "chat", message, token, orgId, ...(sessionId && { sessionId }) }));
const steps = [
  () => chat('CALL {"method":"GET","path":"/api/leads","fields":["items[].name"],"entries":2}'),
  () => chat('CALL {"method":"POST","path":"/api/projects","title":"Create a project","summary":"It is new.","body":{"name":"Nordic launch"}}'),
  () => chat("CONFIRM_ACTION: " + action),
  () => chat('CALL {"method":"DELETE","path":"/api/leads/lead-1"}'),
  () => chat("SAY Rather not."),
  () => { socket.send(JSON.stringify({ type: "reset", sessionId })); chat("SAY Again."); },
  () => { const t = setTimeout(() => process.exit(3), 5000); socket.addEventListener("close", () => { clearTimeout(t); process.exit(0); }); socket.close(); },
];
const next = () => steps.shift()();
socket.addEventListener("open", next);
socket.addEventListener("message", (event) => {
  console.log(event.data);
  const frame = JSON.parse(event.data);
  if (frame.type === "session.id") sessionId = frame.sessionId;
  if (frame.type === "turn.completed") {
    action = undefined;
    try { const said = JSON.parse(frame.text); if (said.type === "confirm") action = said.id; } catch { /* an answer */ }
  }
  if (frame.type === "turn.completed" || frame.type === "error") next();
});
socket.addEventListener("error", () => process.exit(2));
setTimeout(() => process.exit(4), 60_000);
