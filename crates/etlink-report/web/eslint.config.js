// What the compiler leaves: promises that nobody waits for, values of unknown type, dead code.
import js from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import ts from "typescript-eslint";

export default defineConfig(globalIgnores(["dist"]), js.configs.recommended, {
  files: ["src/**"],
  extends: [ts.configs.recommendedTypeChecked],
  languageOptions: { parserOptions: { projectService: true } },
  rules: { eqeqeq: "error" },
});
