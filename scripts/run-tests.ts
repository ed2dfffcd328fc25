// Runs the tests and ends with the slowest files, the failed tests, and one line that counts them all.
//   node scripts/run-tests.ts            every test
//   node scripts/run-tests.ts --quick    unit tests, the store on SQLite, HTTP with the server in the test's own process
//   node scripts/run-tests.ts FILE…      these files, with the name of every test
// Tests of the database and of the interface run twice: on SQLite and, beside everything else, on a PostgreSQL that is
// started for them. BURSAR_TEST_DATABASE=sqlite or =postgres runs one of the two only.
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { startPostgres } from '../test/support/postgres.ts';
import { build } from './build.mjs';
import { canRun, importsOf, needsPeer, runnable } from './peers.ts';

interface Task {
  file: string;
  database: 'sqlite' | 'postgres';
}

interface Result extends Task {
  seconds: number;
  passed: number;
  failed: number;
  skipped: number;
  /** Each with its place. */
  failures: string[];
  /** What the `spec` reporter says. */
  report: string;
}

const runsOnBoth =
  /^test\/(store\/|workers\/|http\/contract\/|services\/(accounting\/(race|classic-faults)|events\/(stream|expiry)|jobs\/job-list-cache)|webhooks\/delivery)/;

/** Files that take minutes, mostly waiting. They start first, so that nothing is left waiting for them at the end. */
const isLong = (file: string) => /^test\/(slurm|crash)\/|\/slurm-|large/.test(file);

/** Fast enough for the inner loop. Tests that spawn servers, run jobs by the dozen or need Slurm, ssh or PostgreSQL are not. */
const isQuickFolder = (file: string) => /^test\/(config|contract|domain|files|http|store|workers)\//.test(file);
const spawnsServer = (file: string) =>
  [...importsOf(file)]
    .filter((path) => !path.startsWith('test/support/'))
    .some((path) => /server-process\.ts'|ownProcess: true/.test(readFileSync(path, 'utf8')));
const isUnit = (file: string) =>
  ![...importsOf(file)].some((path) => /support\/(server|server-process|bench)\.ts$/.test(path));
const isQuick = (file: string) =>
  !needsPeer(file) &&
  !spawnsServer(file) &&
  (isQuickFolder(file) || (isUnit(file) && /^test\/(services|shell|webhooks|engines\/slurm)\//.test(file)));

const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const named = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const quick = options.includes('--quick');
// More than the processors: most tests wait for something most of the time. In the quick ones it is computed.
const concurrency = availableParallelism() + (quick ? 1 : 2);

// The servers that tests spawn run what is built from the sources as they are now.
await build();
const files = findFiles();
const results: Result[] = [];
const tasks = planTasks(files);
const onPostgres = tasks.some(({ database }) => database === 'postgres');
const postgres = onPostgres ? await startPostgres() : undefined;
try {
  const queue = [...tasks];
  await Promise.all(Array.from({ length: concurrency }, () => work(queue)));
} finally {
  await postgres?.close();
}
summarize();

function findFiles(): string[] {
  if (named.length > 0) return runnable(named);
  const all = globSync('test/**/*.test.ts').sort();
  return quick ? all.filter(isQuick) : runnable(all);
}

function planTasks(all: readonly string[]): Task[] {
  const only = quick ? 'sqlite' : process.env.BURSAR_TEST_DATABASE;
  const again = only === 'postgres' ? all : all.filter((file) => runsOnBoth.test(file));
  const hasPostgres = only !== 'sqlite' && again.length > 0 && canRun('PostgreSQL', again.length);
  const planned: Task[] = [
    ...(only === 'postgres' ? [] : all.map((file): Task => ({ file, database: 'sqlite' }))),
    ...(hasPostgres ? again.map((file): Task => ({ file, database: 'postgres' })) : []),
  ];
  return [...planned.filter(({ file }) => isLong(file)), ...planned.filter(({ file }) => !isLong(file))];
}

async function work(queue: Task[]): Promise<void> {
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    const result = await runFile(task);
    results.push(result);
    if (named.length > 0 || result.failed > 0) console.log(result.report);
    console.log(`${result.failed > 0 ? '✖' : '✔'} ${lineFor(result)}`);
  }
}

async function runFile(task: Task): Promise<Result> {
  const startedAt = performance.now();
  const result: Result = { ...task, seconds: 0, passed: 0, failed: 0, skipped: 0, failures: [], report: '' };
  const env = {
    // Every file reuses the code that another one has compiled: a third of the time that a file takes to start.
    NODE_COMPILE_CACHE: join(tmpdir(), 'bursar-tests-compiled'),
    ...process.env,
    BURSAR_TEST_DATABASE: task.database,
    ...(postgres ? { BURSAR_TEST_POSTGRES: postgres.url('postgres') } : {}),
  };
  const events = run({ files: [task.file], env, concurrency: 1, timeout: 900_000 });
  events.on('test:summary', ({ file, counts }) => {
    if (file !== undefined) return;
    // The types lack `failed`.
    const { passed, failed, cancelled, skipped, todo } = counts as typeof counts & { failed: number };
    Object.assign(result, { passed, failed: failed + cancelled, skipped: skipped + todo });
  });
  events.on('test:fail', ({ name, file, line, details }) => {
    // A suite fails with the tests in it.
    if (details.type !== 'suite') result.failures.push(`${name} (${file}:${line}, ${task.database})`);
  });
  for await (const text of events.compose(spec)) result.report += text;
  return { ...result, seconds: (performance.now() - startedAt) / 1000 };
}

function lineFor({ file, database, seconds, passed, failed }: Result): string {
  const counts = failed > 0 ? `${passed} passed, ${failed} failed` : `${passed} passed`;
  return `${file}${database === 'postgres' ? ' on PostgreSQL' : ''}: ${counts} in ${seconds.toFixed(1)} s`;
}

function summarize(): void {
  const sum = (count: (result: Result) => number) => results.reduce((total, result) => total + count(result), 0);
  const [passed, failed, skipped] = [sum((r) => r.passed), sum((r) => r.failed), sum((r) => r.skipped)];
  console.log('\nThe slowest files:');
  for (const result of results.toSorted((a, b) => b.seconds - a.seconds).slice(0, 15))
    console.log(`  ${lineFor(result)}`);
  console.log('');
  for (const failure of results.flatMap(({ failures }) => failures)) console.log(`✖ ${failure}`);
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  process.exitCode = failed > 0 || skipped > 0 || passed === 0 ? 1 : 0;
}
