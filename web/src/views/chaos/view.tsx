import type { View } from "../app/view.ts";
import { App } from "./App.tsx";
import { Chaos } from "./state.ts";

/** The page of chaos: its list of sessions belongs to this browser. */
const view: View = (client, app) => {
  const chaos = new Chaos({ client, app, storage: localStorage });
  addEventListener("storage", (e) => chaos.storageChanged(e.key));
  return { chat: chaos, page: <App chaos={chaos} /> };
};
export default view;
