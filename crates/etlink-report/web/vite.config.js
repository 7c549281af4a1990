// One script and one style sheet, without hashes in their names: the crate embeds them.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "page.js", assetFileNames: "page.[ext]" },
    },
  },
});
