// What `npm test` does: every check, then every test. The first that fails ends it.
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const steps = [
  ['types', 'tsc', '--noEmit'],
  ['lint', 'biome', 'ci', '--error-on-warnings', '.'],
  ['layering', 'depcruise', '--config', '.dependency-cruiser.cjs', 'src'],
  ['unused code', 'knip'],
  ['documents', 'node', 'scripts/write-docs.ts', '--check'],
  ['tests', 'node', 'scripts/run-tests.ts', ...process.argv.slice(2)],
];

for (const [name, command, ...args] of steps) {
  console.log(`\n▶ ${name}: ${command} ${args.join(' ')}`);
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    console.error(`\n✖ ${name} failed${error ? `: ${error.message}` : ''}`);
    process.exit(1);
  }
}
