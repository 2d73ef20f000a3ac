import type { ChatDeps } from "../../chat/chat.ts";
import { Listed } from "../../chat/listed.ts";

/** The sessions of the home page. */
export class Home extends Listed {
  constructor(deps: ChatDeps) {
    super(
      { ...deps, app: deps.app ?? "home" },
      { title: "Home", greeting: "What is going on at home?", placeholder: "Ask about your home…", pin: "The bedroom dimmer was replaced in May." },
    );
  }
}
