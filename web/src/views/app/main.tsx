import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import "../../styles/index.css";
import { appOf, baseOf, createClient } from "../../api/client.ts";
import { createKeyring } from "../../api/keyring.ts";
import { sharedSlots } from "../../api/slots.ts";
import { connectBrowser } from "../../chat/browser.ts";
import { ChatContext } from "../../chat/use-chat.ts";
import { Boundary } from "../../ui/boundary.tsx";
import { Broken } from "../../ui/broken.tsx";
import { KeyGate } from "../../ui/key-gate.tsx";
import type { View } from "./view.ts";

/** The built-in apps have panels of their own on this page. */
const views: Readonly<Record<string, () => Promise<{ default: View }>>> = {
  chaos: () => import("../chaos/view.tsx"),
  home: () => import("../home/view.tsx"),
};

const root = createRoot(document.getElementById("root") ?? document.body);
const app = appOf(location.href);
const keyring = createKeyring();
const client = createClient(baseOf(location.href), keyring.fetch, keyring.locked, sharedSlots());
const load = (Object.hasOwn(views, app) && views[app]) || (() => import("./any.tsx"));

load().then(
  ({ default: view }) => {
    const { chat, page } = view(client, app);
    connectBrowser(chat);
    root.render(
      <StrictMode>
        <ChatContext value={chat}>
          <Boundary fallback={<Broken what="The page" />}>{page}</Boundary>
        </ChatContext>
        <KeyGate keyring={keyring} />
      </StrictMode>,
    );
  },
  () => root.render(<Broken what="The page" />),
);
