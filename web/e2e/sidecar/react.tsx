// A React page with two routes: one has the panel as a component, the other has not. In StrictMode, so all is mounted twice.

import { StrictMode, useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import type { Sidecar } from "../../public/sidecar.d.ts";

const sidecar = () => window.ParleySidecar as Sidecar;

function Panel() {
  useEffect(() => {
    const it = sidecar().mount({ title: "React's assistant" });
    return () => it.unmount();
  }, []);
  return null;
}

function App() {
  const [route, setRoute] = useState("with");
  return (
    <main>
      <h1>{route}</h1>
      <button onClick={() => setRoute("with")}>Route with</button>
      <button onClick={() => setRoute("other")}>Other route with</button>
      <button onClick={() => setRoute("without")}>Route without</button>
      {route !== "without" && <Panel key={route} />}
    </main>
  );
}

const root = document.createElement("div");
document.body.append(root);
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
