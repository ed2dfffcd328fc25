// `npm test`: every check, then every test. `npm run test:quick`: the fast checks and the fast tests, for while you work.
// The first step that fails ends the run. Arguments are test files: only those run then, after the checks.
import { spawnSync } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const isQuick = process.argv.includes('--quick');
const steps = [
  [
    'types',
    'tsc',
    '--noEmit',
    ...(isQuick ? ['--incremental', '--tsBuildInfoFile', 'node_modules/.cache/types.json'] : []),
  ],
  ['lint', 'biome', 'ci', '--error-on-warnings', '.'],
  ['layering', 'depcruise', '--config', '.dependency-cruiser.cjs', 'src'],
  ...(isQuick
    ? []
    : [
        ['unused code', 'knip'],
        ['documents', 'node', 'scripts/write-docs.ts', '--check'],
      ]),
  ['tests', 'node', 'scripts/run-tests.ts', ...process.argv.slice(2)],
];

for (const [name, command, ...args] of steps) {
  console.log(`\n▶ ${name}: ${command} ${args.join(' ')}`);
  const startedAt = Date.now();
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: 'inherit' });
  if (status !== 0) {
    console.error(`\n✖ ${name} failed${error ? `: ${error.message}` : ''}`);
    process.exit(1);
  }
  if (name !== 'tests') console.log(`  ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
}
