// The page that the worker shows without a connection: it looks for one, and goes on as soon as there is.

const every = 3000; // ms, while somebody can see the page
const says = document.getElementById("says");

/** Whether the server answers. Whatever it says, it says on the page itself. */
async function answers() {
  try {
    await fetch(location.href, { method: "HEAD", cache: "no-store" });
    return true;
  } catch {
    return false;
  }
}

async function look(asked) {
  if (asked) says.textContent = "Looking for the server…";
  if (await answers()) location.reload();
  else if (asked) says.textContent = "There is still no connection. This page comes back by itself when there is one.";
}

document.getElementById("again").addEventListener("click", () => void look(true));
addEventListener("online", () => void look(false));
document.addEventListener("visibilitychange", () => document.hidden || void look(false));
setInterval(() => document.hidden || void look(false), every);
