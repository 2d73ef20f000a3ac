// The user's token: the host page has it, and gives a new one when the old one has ended.

/** Why the host page is asked for a token: it never gave one, the one it gave has ended by its own words, or a server refused it. */
export type Why = "missing" | "expired" | "refused";

export type Ask = (why: Why) => string | null | undefined | Promise<string | null | undefined>;

/** A token that ends sooner is not sent: it could end on the way. */
const margin = 10_000;

export class NoToken extends Error {
  override readonly name = "NoToken";
}

export class Tokens {
  #token = "";
  #asking: Promise<string> | undefined;
  #ask: Ask | undefined;
  readonly #now: () => number;
  #waiting: (() => void)[] = [];
  /** Called when the host page is being asked, and when it has answered. */
  asking: (now: boolean) => void = () => undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  set(token: string | null | undefined): void {
    this.#token = (token ?? "").replace(/^Bearer\s+/i, "").trim();
    if (this.#token !== "") for (const go of this.#waiting.splice(0)) go();
  }

  from(ask: Ask | undefined): void {
    this.#ask = ask;
    if (this.#waiting.length > 0) void this.get().catch(() => ""); // it wakes who waits
  }

  /** Whose the token is, if it says so: a hint for what this browser has kept, and nothing else. */
  get who(): string {
    const claims = claimsOf(this.#token);
    return typeof claims?.["sub"] === "string" ? `${String(claims["iss"] ?? "")} ${claims["sub"]}` : "";
  }

  /** Waits until there is a token: the page may give it later. */
  async known(): Promise<void> {
    if (this.#token !== "") return;
    const given = new Promise<void>((done) => this.#waiting.push(done));
    if (this.#ask) void this.get().catch(() => "");
    await given;
  }

  /** A token that has not ended as far as can be told here. Rejects with NoToken. */
  async get(): Promise<string> {
    if (this.#token === "") return this.#renewed("missing");
    const exp = claimsOf(this.#token)?.["exp"];
    if (typeof exp === "number" && exp * 1000 <= this.#now() + margin) return this.#renewed("expired");
    return this.#token;
  }

  /** After a server refused a token: another one, or "" if there is none. */
  async instead(refused: string): Promise<string> {
    if (this.#token !== "" && this.#token !== refused) return this.#token; // it has come meanwhile
    try {
      const token = await this.#renewed("refused");
      return token === refused ? "" : token;
    } catch {
      return "";
    }
  }

  /** Asks once, however many requests wait for the answer. */
  #renewed(why: Why): Promise<string> {
    this.#asking ??= (async () => {
      try {
        if (!this.#ask) {
          if (why === "expired" && this.#token !== "") return this.#token; // this clock may be wrong: the server decides
          throw new NoToken("You are not signed in.");
        }
        this.asking(true);
        try {
          this.set(await this.#ask(why));
        } finally {
          this.asking(false);
        }
        if (this.#token === "") throw new NoToken("You are not signed in.");
        return this.#token;
      } catch (cause) {
        throw cause instanceof NoToken ? cause : new NoToken("The page could not renew your sign-in.", { cause });
      }
    })().finally(() => (this.#asking = undefined));
    return this.#asking;
  }
}

/** The claims of a JWT, unverified; undefined for other tokens. */
function claimsOf(token: string): Record<string, unknown> | undefined {
  const part = token.split(".");
  if (part.length !== 3) return undefined;
  try {
    const bytes = Uint8Array.from(atob((part[1] ?? "").replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as unknown;
    return typeof claims === "object" && claims !== null ? (claims as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** A fetch with the user's token and organisation. A refused token is replaced once. */
export function signed(fetcher: (input: string, init?: RequestInit) => Promise<Response>, tokens: Tokens, org: () => string): (input: string, init?: RequestInit) => Promise<Response> {
  return async (input, init) => {
    const request = (token: string) => {
      const headers = new Headers(init?.headers);
      headers.set("Authorization", `Bearer ${token}`);
      if (org() !== "") headers.set("X-Org-Id", org());
      return fetcher(input, { ...init, headers, credentials: "omit" });
    };
    const token = await tokens.get();
    const answer = await request(token);
    if (answer.status !== 401) return answer;
    const other = await tokens.instead(token);
    return other === "" ? answer : request(other);
  };
}
