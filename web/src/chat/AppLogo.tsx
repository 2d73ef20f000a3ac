import { useState } from "react";

import type { AppInfo } from "../api/client.ts";

/** An app's logo, or else the first letter of its title on its colour. */
export function AppLogo({ app, base, size = 28 }: { app: Pick<AppInfo, "name" | "title" | "page">; base: string; size?: number }) {
  const [broken, setBroken] = useState(false);
  if (app.page?.logo && !broken) {
    return <img src={`${base}apps/${encodeURIComponent(app.name)}/logo`} alt="" width={size} height={size} onError={() => setBroken(true)} className="shrink-0 rounded-md object-contain" style={{ width: size, height: size }} />;
  }
  return (
    // Drawn with CSS, so that it is not part of an accessible name.
    <span
      aria-hidden="true"
      data-initial={[...(app.title || app.name).trim()][0]?.toUpperCase() ?? "?"}
      className="inline-flex shrink-0 items-center justify-center rounded-md bg-bubble leading-none font-semibold text-text-primary before:content-[attr(data-initial)]"
      style={{ width: size, height: size, fontSize: size / 2 }}
    />
  );
}

/** The address of an app's page. If the app brings a page of its own that can be reached from here, it is that one: only browsers on the server's machine can reach NAME.localhost. */
export function pageOf(app: Pick<AppInfo, "name" | "page">, base: string): string {
  const own = app.page?.url ?? "";
  if (/^https?:/.test(own) && URL.canParse(own)) {
    const local = (host: string) => /^(localhost|.*\.localhost|127\.0\.0\.1|\[::1\])$/.test(host);
    if (!local(new URL(own).hostname) || local(new URL(base).hostname)) return own;
  }
  return `${base}apps/${encodeURIComponent(app.name)}/`;
}
