// One script and one style sheet, without hashes in their names: the crate embeds them.
import { defineConfig } from "vite";

// What the libraries' licences ask of copies.
const LICENSES =
  "/*! With Preact, (c) 2015-present Jason Miller, and uPlot, (c) 2022 Leon Sorokin: MIT License */";

export default defineConfig({
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: {
        format: "iife",
        entryFileNames: "page.js",
        assetFileNames: "page.[ext]",
        banner: LICENSES,
      },
    },
  },
});
