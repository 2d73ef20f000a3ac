import { defineConfig } from "vite";

import { precompress } from "./vite.config.ts";

// The client for pages of others, beside our pages: one file with a fixed name.
export default defineConfig({
  publicDir: false,
  plugins: [precompress()],
  build: {
    target: "es2022",
    emptyOutDir: false,
    lib: { entry: "src/client/index.ts", formats: ["es"], fileName: () => "parley/client.js" },
  },
});
