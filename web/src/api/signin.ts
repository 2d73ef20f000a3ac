// How a person signs in: the page goes to the server, which sends the browser to the provider and,
// afterwards, back to the page where it was.

/** A provider at which the server lets people sign in. */
export interface Way {
  name: string;
  title: string;
  /** Relative to the server's base. */
  path: string;
}

/** The ways to sign in; none at a server that only knows keys. */
export async function waysOf(base: string, signal?: AbortSignal): Promise<readonly Way[]> {
  const response = await fetch(`${base}v1/signin`, { ...(signal && { signal }) });
  if (!response.ok) return [];
  const body: unknown = await response.json();
  const ways = typeof body === "object" && body !== null && "ways" in body && Array.isArray(body.ways) ? body.ways : [];
  return ways.filter(
    (w: unknown): w is Way =>
      typeof w === "object" && w !== null && "name" in w && typeof w.name === "string" && "title" in w && typeof w.title === "string" && "path" in w && typeof w.path === "string" && /^v1\/signin\/[a-z0-9-]+$/.test(w.path),
  );
}

/** Where a browser begins to sign in; it comes back to href, which is below base. */
export function signInUrl(base: string, way: Way, href: string): string {
  const to = href.startsWith(base) ? `/${href.slice(base.length)}` : "/";
  return `${base}${way.path}?to=${encodeURIComponent(to.replace(/#signin=.*$/, ""))}`;
}

const failures: Readonly<Record<string, string>> = {
  denied: "You did not sign in. Nothing was changed.",
  failed: "Signing in did not work. Try again; the server's log says why if it fails again.",
  unavailable: "The provider cannot be reached. Try again in a moment.",
  forbidden: "Your account may not use this server. Ask its operator.",
};

/** What the server says in the fragment of the address after a login that failed; "" if it did not fail. */
export function failedIn(hash: string): string {
  const word = /^#signin=([a-z]+)$/.exec(hash)?.[1];
  if (word === undefined) return "";
  return (Object.hasOwn(failures, word) && failures[word]) || failures["failed"] || "";
}
