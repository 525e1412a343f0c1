// Builds one script and one stylesheet, with fixed names, into the Python package. Equal sources give equal files.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  publicDir: "public",
  build: {
    outDir: "../src/clicket/server/static",
    emptyOutDir: true,
    assetsDir: "console",
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    sourcemap: false,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "console/app.js",
        assetFileNames: "console/app[extname]",
        codeSplitting: false,
      },
    },
  },
  esbuild: { legalComments: "none" },
});
