// What a page shows is looked at in both themes and at several widths: axe finds nothing in it, and nothing leaves the
// window. The pictures are for people.

import { expect } from "vitest";

import { violations } from "./axe.ts";
import type { Browser } from "./harness.ts";

const both = ["dark", "light"] as const;
const widths = [1440, 1024, 390] as const;

/** Checks what the page shows, in a window that is high enough for all of it. */
export async function lookAt(browser: Browser, name: string, height: number, at: readonly number[] = widths): Promise<void> {
  const { page } = browser;
  for (const width of at) {
    for (const theme of both) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: theme }); // what some pages follow
      await page.evaluate((theme) => {
        document.documentElement.dataset["theme"] = theme;
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      }, theme);
      await browser.shot(`${name}-${width}-${theme}`);
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), `${name} at ${width}`).toBeLessThanOrEqual(0);
      expect(await violations(page), `${name}, ${theme}, ${width}`).toEqual([]);
    }
  }
}
