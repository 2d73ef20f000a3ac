import { useEffect, useState } from "react";

import type { AppInfo } from "../api/client.ts";
import { useActions } from "./use-chat.ts";

/** The apps of this server. Empty until they are read, and if they cannot be. */
export function useApps(): readonly AppInfo[] {
  const { client } = useActions();
  const [apps, setApps] = useState<readonly AppInfo[]>([]);
  useEffect(() => {
    const stop = new AbortController();
    client.apps(stop.signal).then(setApps, () => undefined); // the page can be used without them
    return () => stop.abort();
  }, [client]);
  return apps;
}
