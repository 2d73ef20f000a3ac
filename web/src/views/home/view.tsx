import type { View } from "../app/view.ts";
import { App } from "./App.tsx";
import { Entities } from "./entities.ts";
import { Home } from "./state.ts";
import { createEvidence } from "./use-evidence.ts";
import { createPanel, HomeContext } from "./use-home.ts";

/** The page of a home: with the house beside the chat, and charts of what it recorded. */
const view: View = (client, app) => {
  const home = new Home({ client, app });
  const parts = { entities: new Entities(client), panel: createPanel(), evidence: createEvidence() };
  home.start();
  return {
    chat: home,
    page: (
      <HomeContext value={parts}>
        <App home={home} />
      </HomeContext>
    ),
  };
};
export default view;
