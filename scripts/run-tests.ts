// Runs the tests and ends with the slowest files, the failed tests, and one line that counts them all.
//   node scripts/run-tests.ts            every test
//   node scripts/run-tests.ts --quick    unit tests, the store on SQLite, HTTP with the server in the test's own process
//   node scripts/run-tests.ts FILE…      these files, with the name of every test
// Tests of the database and of the HTTP interface run twice: on SQLite, and on a PostgreSQL that is started for them.
// BURSAR_TEST_DATABASE=sqlite or =postgres selects one of the two.
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { startPostgres } from '../test/support/postgres.ts';
import { build } from './build.mjs';
import { filterRunnable, findImports, isAvailableOrReport, needsExternalSoftware } from './external-software.ts';

interface Task {
  file: string;
  database: 'sqlite' | 'postgres';
}

interface Result extends Task {
  seconds: number;
  passed: number;
  failed: number;
  skipped: number;
  /** Name and location of each failed test. */
  failures: string[];
  /** Output of the `spec` reporter. */
  report: string;
}

const runsOnBothDatabases =
  /^test\/(store\/|workers\/|http\/contract\/|services\/(accounting\/(race|classic-faults)|events\/(stream|expiry)|jobs\/job-list-cache)|webhooks\/delivery)/;

/** Files that take minutes, mostly waiting. They start first, so that the run does not end by waiting for them. */
const isLong = (file: string) => /^test\/(slurm|crash)\/|\/slurm-|large/.test(file);

/** Folders whose tests are fast. Their tests that spawn a server or need external software are still excluded. */
const isQuickFolder = (file: string) => /^test\/(config|contract|domain|files|http|store|workers)\//.test(file);
const spawnsServer = (file: string) =>
  [...findImports(file)]
    .filter((path) => !path.startsWith('test/support/'))
    .some((path) => /server-process\.ts'|ownProcess: true/.test(readFileSync(path, 'utf8')));
const isUnit = (file: string) =>
  ![...findImports(file)].some((path) => /support\/(server|server-process|bench)\.ts$/.test(path));
/** Generates a client and checks its types: a quarter of a minute of CPU time. */
const generatesClient = (file: string) => file === 'test/http/openapi/client.test.ts';
const isQuick = (file: string) =>
  !isLong(file) &&
  !needsExternalSoftware(file) &&
  !spawnsServer(file) &&
  !generatesClient(file) &&
  (isQuickFolder(file) || (isUnit(file) && /^test\/(services|shell|webhooks|engines\/slurm)\//.test(file)));

const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const namedFiles = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const isQuickRun = options.includes('--quick');
// More than the CPUs, because most tests mostly wait. Quick tests wait less.
const concurrency = availableParallelism() + (isQuickRun ? 1 : 2);

// Tests spawn servers from this build.
await build();
const files = findFiles();
const results: Result[] = [];
const tasks = planTasks(files);
const needsPostgres = tasks.some(({ database }) => database === 'postgres');
const postgres = needsPostgres ? await startPostgres() : undefined;
try {
  const queue = [...tasks];
  await Promise.all(Array.from({ length: concurrency }, () => runQueue(queue)));
} finally {
  await postgres?.close();
}
summarize();

function findFiles(): string[] {
  if (namedFiles.length > 0) return filterRunnable(namedFiles);
  const all = globSync('test/**/*.test.ts').sort();
  return isQuickRun ? all.filter(isQuick) : filterRunnable(all);
}

function planTasks(all: readonly string[]): Task[] {
  const onlyDatabase = isQuickRun ? 'sqlite' : process.env.BURSAR_TEST_DATABASE;
  const postgresFiles = onlyDatabase === 'postgres' ? all : all.filter((file) => runsOnBothDatabases.test(file));
  const usesPostgres = onlyDatabase !== 'sqlite' && postgresFiles.length > 0;
  const hasPostgres = usesPostgres && isAvailableOrReport('PostgreSQL', postgresFiles.length);
  const planned: Task[] = [
    ...(onlyDatabase === 'postgres' ? [] : all.map((file): Task => ({ file, database: 'sqlite' }))),
    ...(hasPostgres ? postgresFiles.map((file): Task => ({ file, database: 'postgres' })) : []),
  ];
  return [...planned.filter(({ file }) => isLong(file)), ...planned.filter(({ file }) => !isLong(file))];
}

async function runQueue(queue: Task[]): Promise<void> {
  for (let task = queue.shift(); task !== undefined; task = queue.shift()) {
    const result = await runFile(task);
    results.push(result);
    if (namedFiles.length > 0 || result.failed > 0) console.log(result.report);
    console.log(`${result.failed > 0 ? '✖' : '✔'} ${lineFor(result)}`);
  }
}

async function runFile(task: Task): Promise<Result> {
  const startedAt = performance.now();
  const result: Result = { ...task, seconds: 0, passed: 0, failed: 0, skipped: 0, failures: [], report: '' };
  const env = {
    // The files share compiled code, which saves a third of the startup time of a file.
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
    // A suite fails if one of its tests does, which is reported itself.
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
