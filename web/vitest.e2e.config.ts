import { defineConfig } from "vitest/config";

// The browser tests: one file after another, because each drives a real browser and a real server. What is waited for may
// take its time on a machine that has other things to do: none of these bounds is a claim. A test that fails is not run again.
export default defineConfig({
  test: {
    include: ["e2e/**/*.test.ts"],
    maxWorkers: 2,
    retry: 0,
    testTimeout: 360_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 90_000 } },
  },
});
