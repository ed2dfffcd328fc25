import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** A running Bursar, for `npm run dev -w web`. */
const server = process.env.BURSAR_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: '/app/',
  plugins: [react()],
  resolve: {
    // The rules for zips use yauzl, which is written for Node.
    alias: [
      {
        find: /^(node:buffer|fs|zlib|util|events|stream)$/,
        replacement: fileURLToPath(new URL('src/node-shim/modules.ts', import.meta.url)),
      },
    ],
  },
  build: {
    target: 'es2023',
    // Data URLs would need an exception in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: {
      '^/(?!app/)': {
        target: server,
        // The server accepts cookies only from pages of its own.
        headers: { origin: new URL(server).origin },
        changeOrigin: true,
      },
    },
  },
});
