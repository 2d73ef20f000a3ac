import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import "../../styles/index.css";
import { baseOf, createClient } from "../../api/client.ts";
import { createKeyring } from "../../api/keyring.ts";
import { sharedSlots } from "../../api/slots.ts";
import { connectBrowser } from "../../chat/browser.ts";
import { ChatContext } from "../../chat/use-chat.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { Broken } from "../../ui/broken.tsx";
import { KeyGate } from "../../ui/key-gate.tsx";
import { App } from "./App.tsx";
import { Entities } from "./entities.ts";
import { Home } from "./state.ts";
import { createEvidence } from "./use-evidence.ts";
import { createPanel, HomeContext } from "./use-home.ts";

const keyring = createKeyring();
const client = createClient(baseOf(location.href), keyring.fetch, keyring.locked, sharedSlots());
const home = new Home({ client });
const parts = { entities: new Entities(client), panel: createPanel(), evidence: createEvidence() };
connectBrowser(home);
home.start();

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <ChatContext value={home}>
      <HomeContext value={parts}>
        <Boundary fallback={<Broken what="The page" />}>
          <App home={home} />
        </Boundary>
      </HomeContext>
    </ChatContext>
    <KeyGate keyring={keyring} />
  </StrictMode>,
);
