// Builds the web page into a folder, with compressed copies of its files.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import { build } from 'vite';

const root = dirname(fileURLToPath(import.meta.url));
const [, , folder] = process.argv;

await build({
  root,
  configFile: join(root, 'vite.config.ts'),
  logLevel: 'warn',
  build: { outDir: folder, emptyOutDir: true },
});
const entries = await readdir(folder, { recursive: true, withFileTypes: true });
const texts = entries.filter((entry) => entry.isFile() && /\.(html|js|css|svg)$/.test(entry.name));
await Promise.all(texts.map(({ parentPath, name }) => compress(join(parentPath, name))));

/** Compresses a file once, so that the server need not do it for every response. */
async function compress(file) {
  const content = await readFile(file);
  await writeFile(`${file}.gz`, await promisify(gzip)(content, { level: 9 }));
  await writeFile(`${file}.br`, await promisify(brotliCompress)(content));
}
