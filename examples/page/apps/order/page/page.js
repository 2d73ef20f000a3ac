import { connect } from "/parley/client.js";

const get = (id) => document.getElementById(id);
const fail = (error) => (get("error").textContent = [error.message, error.hint].filter(Boolean).join(" "));

// The address keeps the conversation's name, so that reloading the page, or opening the link elsewhere, shows the same one.
if (!location.hash) location.replace(`#${Math.random().toString(36).slice(2)}`);
const opening = connect({ app: "order" }).open(location.hash.slice(1));

// Before the server has answered, too: otherwise the browser would send the form away and load the page anew.
get("form").onsubmit = async (event) => {
  event.preventDefault();
  get("error").textContent = "";
  const message = get("message").value;
  get("message").value = "";
  await opening.then((talk) => talk.send(message)).catch(fail);
};
get("stop").onclick = () => opening.then((talk) => talk.cancel()).catch(fail);

const talk = await opening.catch(fail);
talk?.subscribe(({ connection, error, turns, questions }) => {
  get("connection").textContent = { live: "", connecting: "Connecting…", waiting: "The server is away. Nothing is lost; this page waits for it.", refused: error?.message }[connection];
  get("stop").hidden = !turns.some((t) => t.open);
  get("turns").replaceChildren(...turns.map(turn));
  // What is being answered must not be drawn again.
  const shown = [...get("questions").children].map((e) => e.id).join();
  if (shown !== questions.map((q) => q.id).join()) get("questions").replaceChildren(...questions.map(question));
});

function turn(t) {
  const item = document.createElement("li");
  item.dataset.status = t.status;
  // Text, never HTML: a model may be made to say anything.
  item.append(line(t.message), line(t.answer || (t.open ? "…" : (t.error?.message ?? t.status))));
  if (t.scripted && !t.open) item.append(line("(A script answered, not a language model.)"));
  return item;
}

function question(q) {
  const box = document.createElement("fieldset");
  box.id = q.id;
  const legend = document.createElement("legend");
  legend.textContent = q.asks[0]?.question ?? q.title;
  box.append(legend);
  const answer = (label, value) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.onclick = () => talk.answer(q.id, value).catch(fail);
    box.append(button, " ");
  };
  if (q.kind === "question") for (const o of q.asks[0].options) answer(o.label, { choice: "answered", answers: { [q.asks[0].question]: o.label } });
  else for (const choice of q.choices) answer(choice, { choice });
  return box;
}

function line(text) {
  const p = document.createElement("p");
  p.textContent = text;
  return p;
}
