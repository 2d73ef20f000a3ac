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
import { Chaos } from "./state.ts";

const keyring = createKeyring();
const chaos = new Chaos({ client: createClient(baseOf(location.href), keyring.fetch, keyring.locked, sharedSlots()), storage: localStorage });
addEventListener("storage", (e) => chaos.storageChanged(e.key));
connectBrowser(chaos);

const root = document.getElementById("root");
if (!root) throw new Error("the page has no #root");
createRoot(root).render(
  <StrictMode>
    <ChatContext value={chaos}>
      <Boundary fallback={<Broken what="The page" />}>
        <App chaos={chaos} />
      </Boundary>
    </ChatContext>
    <KeyGate keyring={keyring} />
  </StrictMode>,
);
