// Writes a release into the folder `release`, or into the one that is its argument: the package that `npm install -g` installs,
// the list of everything in it (SBOM, in the CycloneDX format), and their hashes. The same sources give the same bytes.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildFolder } from '../bin/build-folder.mjs';
import packageJson from '../package.json' with { type: 'json' };
import { build } from './build.mjs';
import { stagePackage } from './release-package.ts';
import { type Bill, runtimeBill } from './release-sbom.ts';

const root = resolve(import.meta.dirname, '..');
const folder = resolve(process.argv[2] ?? join(root, 'release'));
const name = `bursar-${packageJson.version}`;

await build();
mkdirSync(folder, { recursive: true });
const bill = runtimeBill(JSON.parse(npm(root, 'sbom', '--sbom-format=cyclonedx', '--package-lock-only')) as Bill);
writeFileSync(join(folder, `${name}.cdx.json`), `${JSON.stringify(bill, null, 2)}\n`);
const staging = mkdtempSync(join(tmpdir(), 'bursar-release-'));
try {
  stagePackage(staging, buildFolder(), bill);
  npm(staging, 'pack', '--pack-destination', folder);
} finally {
  rmSync(staging, { recursive: true });
}
const sums = [`${name}.tgz`, `${name}.cdx.json`].map((file) => {
  const hash = createHash('sha256').update(readFileSync(join(folder, file)));
  return `${hash.digest('hex')}  ${file}\n`;
});
writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
process.stdout.write(`${folder}:\n${sums.join('')}`);

/** Runs npm and returns its output. Started by npm, the script uses the same npm. */
function npm(cwd: string, ...args: string[]): string {
  const path = process.env.npm_execpath;
  const [command, first] = path === undefined ? ['npm', []] : [process.execPath, [path]];
  return execFileSync(command, [...first, ...args, '--loglevel=error'], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}
