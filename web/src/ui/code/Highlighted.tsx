import { useEffect, useState } from "react";

import { LongText } from "../long-text.tsx";
import type { Part } from "./highlight.ts";

/** How long a code must stay the same before it gets its colours: while it is streamed it does not. */
const still = 150;

/** Longer codes have no colours. */
const longest = 40_000;

/** Code that gets its colours when its grammar is there. Until then, and without one, it is plain. */
export function Highlighted({ text, language }: { text: string; language: string }) {
  const [done, setDone] = useState<{ text: string; parts: readonly Part[] }>();
  const worth = language !== "" && text.length <= longest;
  useEffect(() => {
    if (!worth) return;
    let gone = false;
    const timer = setTimeout(() => {
      void colour(text, language).then(
        (parts) => gone || (parts && setDone({ text, parts })),
        () => undefined, // without colours it says the same
      );
    }, still);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text, language, worth]);
  if (!worth || done?.text !== text) return <LongText text={text} />;
  return done.parts.map((p, i) => (p.kind === "" ? p.text : <span key={i} className={p.kind}>{p.text}</span>));
}

async function colour(text: string, language: string): Promise<readonly Part[] | undefined> {
  const [{ highlighted }, { languageNamed }] = await Promise.all([import("./highlight.ts"), import("./languages.ts")]);
  const name = languageNamed(language);
  return name === undefined ? undefined : highlighted(text, name);
}
