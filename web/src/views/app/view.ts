import type { ReactNode } from "react";

import type { Client } from "../../api/client.ts";
import type { Chat } from "../../chat/chat.ts";

/** Makes the page of an app, before anything is read. */
export type View = (client: Client, app: string) => { chat: Chat; page: ReactNode };
