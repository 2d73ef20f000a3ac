// What axe finds on a page: violations of WCAG 2 AA.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The violations: the rule and the element. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const results = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(o: unknown): Promise<AxeResults> } };
    // Animations are finished before the check, and those that have no end are stopped.
    for (const a of document.getAnimations()) {
      if (a.effect?.getComputedTiming().endTime === Infinity) a.cancel();
      else a.finish();
    }
    // A frame in a sandbox runs nothing, so axe cannot look into it.
    return axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], iframes: false });
  });
  return results.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.any[0]?.message ?? n.failureSummary ?? ""}`));
}
