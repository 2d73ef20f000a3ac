import { defineConfig, type Plugin } from "vite";

import { precompress } from "./vite.config.ts";

// The panel for pages of others: one classic script with a fixed name, with its styles inside.
export default defineConfig({
  publicDir: false,
  plugins: [ascii(), precompress()],
  oxc: { jsx: { importSource: "preact" } },
  build: {
    target: ["chrome123", "firefox128", "safari17.5"],
    emptyOutDir: false,
    lib: { entry: "src/sidecar/index.ts", formats: ["iife"], name: "parleySidecar", fileName: () => "sidecar.js" },
  },
});

/** Only ASCII, so that the script means the same on a page in another encoding that got it without a charset. */
function ascii(): Plugin {
  return {
    name: "ascii",
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === "chunk") file.code = file.code.replace(/[^\0-\x7f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
      }
    },
  };
}
