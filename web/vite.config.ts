import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// Where the dev server sends what is not a page: a Parley on its default address, unless told otherwise.
const server = process.env.PARLEY_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  // Relative, so that the pages work under any prefix (an ingress, a reverse proxy with a path).
  base: "./",
  plugins: [react(), tailwindcss(), appPaths(), keepPlaceholder(), workerOfBuild(), precompress()],
  build: {
    target: "es2023",
    modulePreload: { polyfill: false },
    // Inlined files would need data: in the content security policy.
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: { index: "index.html", app: "app.html", login: "login.html", account: "account.html" },
    },
  },
  server: {
    proxy: { "/v1": server, "/chat": server, "/openapi.json": server, "^/apps/[\\w-]+/(entities|look.css|logo|app.webmanifest)": server },
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}"],
  },
});

/** In development, too, /apps/{app}/ is the page app.html with its files below it, as embed.go has it. */
function appPaths(): Plugin {
  return {
    name: "app-paths",
    configureServer(server) {
      server.middlewares.use((request, _response, next) => {
        const served = /^\/apps\/[\w-]+\/(entities|look\.css|logo|app\.webmanifest)\b/.test(request.url ?? ""); // by the server itself
        if (!served) request.url = request.url?.replace(/^\/apps\/[\w-]+\/(?=[?#]|$)/, "/app.html").replace(/^\/apps\/[\w-]+\//, "/");
        next();
      });
    },
  };
}

/** dist/.gitkeep is committed so that the Go package compiles before the first build; a build empties dist. */
function keepPlaceholder(): Plugin {
  return {
    name: "keep-placeholder",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: ".gitkeep", source: "" });
    },
  };
}

/** Puts a digest of the build into its worker: what it keeps of one build is not that of another. */
function workerOfBuild(): Plugin {
  let out = "dist";
  return {
    name: "worker-of-build",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir;
    },
    writeBundle() {
      const digest = createHash("sha256");
      for (const name of readdirSync(out, { recursive: true, encoding: "utf8" }).sort()) {
        if (statSync(join(out, name)).isFile()) digest.update(name).update(readFileSync(join(out, name)));
      }
      const worker = readFileSync(join(out, "worker.js"), "utf8");
      const mark = 'const build = "development";';
      if (!worker.includes(mark)) throw new Error("worker.js has no place for the digest of the build");
      writeFileSync(join(out, "worker.js"), worker.replace(mark, `const build = "${digest.digest("hex").slice(0, 16)}";`));
    },
  };
}

/** Writes .br and .gz beside every text file, once at build time, so that the server never compresses. */
export function precompress(): Plugin {
  let out = "dist";
  return {
    name: "precompress",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir;
    },
    closeBundle() {
      for (const name of readdirSync(out, { recursive: true, encoding: "utf8" })) {
        const path = join(out, name);
        if (!/\.(html|js|css|svg|json|webmanifest|ts)$/.test(name) || !statSync(path).isFile()) continue;
        const plain = readFileSync(path);
        const brotli = brotliCompressSync(plain, {
          params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length },
        });
        const gzip = gzipSync(plain, { level: 9 });
        if (brotli.length < plain.length) writeFileSync(`${path}.br`, brotli);
        if (gzip.length < plain.length) writeFileSync(`${path}.gz`, gzip);
      }
    },
  };
}
