import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { extract } from 'tar';

const nodeModules = fileURLToPath(new URL('../../node_modules', import.meta.url));
const archive = new URL('../fixtures/bursar-0.1.0.tar.br', import.meta.url);

/**
 * Unpacks the program of version 0.1.0, as its build bundled it, without the web page. It uses the drivers of the databases
 * that are installed now. Returns the path of its command line, for `spawnServer`, and a function that removes it.
 */
export async function unpackOldVersion(): Promise<{ program: string; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-0.1.0-'));
  await pipeline(Readable.from([brotliDecompressSync(readFileSync(archive))]), extract({ cwd: folder }));
  symlinkSync(nodeModules, join(folder, 'node_modules'));
  return { program: join(folder, 'bursar.mjs'), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
