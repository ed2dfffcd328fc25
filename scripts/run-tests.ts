// Runs the tests, or those whose files are named, and closes with those that failed and a line that counts them all. What is about the books or
// the contract runs twice: on SQLite, and on a PostgreSQL that is started for it. BURSAR_TEST_DATABASE names one alone.
import { globSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { startPostgres } from '../test/support/postgres.ts';
import { build } from './build.mjs';
import { canRun, runnable } from './peers.ts';

const onBoth =
  /^test\/(store\/|workers\/|http\/contract\/|services\/(accounting\/(race|classic-faults)|events\/(stream|expiry)|jobs\/job-list-cache)|webhooks\/delivery)/;

/** They take minutes, most of which they wait for: begun first, they end with the others. */
const isLong = (file: string) => /^test\/(slurm|crash)\/|\/slurm-|large/.test(file);

// The servers that tests start are built from the sources as they are now.
await build();
const named = process.argv.slice(2);
const found = runnable((named.length > 0 ? named : globSync('test/**/*.test.ts')).sort());
const files = [...found.filter(isLong), ...found.filter((file) => !isLong(file))];
const only = process.env.BURSAR_TEST_DATABASE;
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];

if (only !== 'postgres') await runAll(files, { BURSAR_TEST_DATABASE: 'sqlite' });
const again = only === 'postgres' ? files : files.filter((file) => onBoth.test(file));
if (only !== 'sqlite' && again.length > 0 && canRun('PostgreSQL', again.length)) {
  const postgres = await startPostgres();
  console.log(`\n▶ once more, on PostgreSQL: ${again.length} files\n`);
  const settings = { BURSAR_TEST_DATABASE: 'postgres', BURSAR_TEST_POSTGRES: postgres.url('postgres') };
  await runAll(again, settings).finally(() => postgres.close());
}

process.exitCode = counts.failed > 0 || counts.skipped > 0 || counts.passed === 0 ? 1 : 0;
process.on('exit', () => {
  for (const failure of failures) console.log(`✖ ${failure}`);
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
  console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
});

async function runAll(these: string[], settings: Record<string, string>): Promise<void> {
  // What one test has compiled, the others need not: it is a third of the time that each takes to start.
  const env = { NODE_COMPILE_CACHE: join(tmpdir(), 'bursar-tests-compiled'), ...process.env, ...settings };
  const results = run({ files: these, env, concurrency: availableParallelism() + 2, timeout: 900_000 });
  results.on('test:summary', ({ file, counts: summary }) => {
    if (file !== undefined) return;
    // `failed` is there, though the types do not know it.
    const { passed, failed, cancelled, skipped, todo } = summary as typeof summary & { failed: number };
    counts.passed += passed;
    counts.failed += failed + cancelled;
    counts.skipped += skipped + todo;
  });
  results.on('test:fail', ({ name, file, line, details }) => {
    // A suite fails with what is in it.
    if (details.type !== 'suite') failures.push(`${name} (${file}:${line}, ${settings.BURSAR_TEST_DATABASE})`);
  });
  results.compose(spec).pipe(process.stdout);
  await new Promise((resolve) => results.on('end', resolve));
}
