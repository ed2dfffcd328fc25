// Runs before every npm script, on the Node of the machine: installs the dependencies if they are missing or out of
// date (one of them is the Node that runs everything else), and builds the program.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeOldNode, hasPinnedNode } from '../bin/node-version.mjs';
import { build } from './build.mjs';

// Without a Node of its own the script runs on this one.
const problem = hasPinnedNode() ? undefined : describeOldNode();
if (problem !== undefined) {
  console.error(problem);
  process.exit(1);
}

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const stampFile = join(root, 'node_modules', '.installed-lock');
const lockHash = createHash('sha256')
  .update(readFileSync(join(root, 'package-lock.json')))
  .digest('hex');

if (!existsSync(stampFile) || readFileSync(stampFile, 'utf8') !== lockHash) {
  console.error('Installing dependencies…');
  // No package needs its install script: native code is prebuilt, so nothing is compiled or downloaded here.
  const options = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const npm = process.env.npm_execpath;
  const [command, args] = npm ? [process.execPath, [npm, ...options]] : ['npm', options];
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (status !== 0) {
    console.error(`npm ci failed${error ? `: ${error.message}` : ''}. Check that the npm registry is reachable.`);
    process.exit(1);
  }
  writeFileSync(stampFile, lockHash);
}

await build();
