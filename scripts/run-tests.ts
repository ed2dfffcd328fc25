// Runs the tests, or those whose files are named, and closes with a line that counts them.
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { runnable } from './peers.ts';

const named = process.argv.slice(2);
const files = runnable((named.length > 0 ? named : globSync('test/**/*.test.ts')).sort());
const counts = { passed: 0, failed: 0, skipped: 0 };

const results = run({ files, concurrency: Math.max(2, availableParallelism()), timeout: 600_000 });
results.on('test:summary', ({ file, counts: summary }) => {
  if (file !== undefined) return;
  // `failed` is there, though the types do not know it.
  const { passed, failed, cancelled, skipped, todo } = summary as typeof summary & { failed: number };
  Object.assign(counts, { passed, failed: failed + cancelled, skipped: skipped + todo });
});
results.compose(spec).pipe(process.stdout);
await new Promise((resolve) => results.on('end', resolve));

process.exitCode = counts.failed > 0 || counts.skipped > 0 || counts.passed === 0 ? 1 : 0;
process.on('exit', () => {
  const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
  console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
});
