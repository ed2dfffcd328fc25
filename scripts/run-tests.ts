// Runs the tests and ends with the slowest files, the failed tests, and one line that counts them all.
//   node scripts/run-tests.ts              tests that need only Node: all but those of test/systems and test/long
//   node scripts/run-tests.ts --systems    test/systems, and on PostgreSQL test/store and test/workers
//   node scripts/run-tests.ts --long       test/long, and the tests that repeat a check with random or large input
//   node scripts/run-tests.ts FILE…        these files, with the name of every test
// A file of these two folders that uses a database runs on both if it is named. BURSAR_TEST_DATABASE=sqlite or =postgres
// selects one of the two.
import { globSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { compileCache } from '../test/support/compile-cache.ts';
import { useMemoryDisk } from '../test/support/memory-disk.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { privateFilesVariable, removePrivateFiles } from '../test/support/private-file.ts';
import { startSharedCluster } from '../test/support/shared-cluster.ts';
import {
  createSqliteTemplate,
  prepareTemplateDatabase,
  sqliteTemplateVariable,
  templateDatabase,
} from '../test/support/template-database.ts';
import { build } from './build.mjs';
import { filterRunnable, findImports, isAvailableOrReport } from './external-software.ts';

interface Task {
  /** They run in one process. */
  files: string[];
  database: 'sqlite' | 'postgres';
}

interface Result extends Task {
  seconds: number;
  /** The time of each file, without the start of the process if there are several. */
  fileSeconds: Map<string, number>;
  passed: number;
  failed: number;
  skipped: number;
  /** Name, location and error of each failed test. */
  failures: string[];
  /** Output of the `spec` reporter. */
  report: string;
}

/** Enough for the difference that an assertion shows. */
const maxErrorLines = 30;

/** The SQL of both databases differs, and they conflict in other ways. */
const runsOnBothDatabases = (file: string) =>
  /^test\/(store|workers)\//.test(file) && findImports(file).has('test/support/database.ts');

/** Files share a process: loading the modules takes more CPU time than most files take for their tests. */
const maxGroupSize = 60;
const startsSimulation = (file: string) => findImports(file).has('simulation/run-seeds.ts');
/** Tests that import it use the cluster of this run; those that import slurm-cluster.ts start their own. */
const sharedClusterModule = 'test/support/shared-cluster.ts';
const usesSharedCluster = (file: string) => findImports(file).has(sharedClusterModule);
// Imports of the shared cluster are not a part of the search.
const usesOwnCluster = (file: string) =>
  findImports(file, new Set([sharedClusterModule])).has('test/support/slurm-cluster.ts');
const usesSlurm = (file: string) => usesSharedCluster(file) || usesOwnCluster(file);
/** Only files of the same area share a process. Those of these two folders mostly wait, so each of their folders is one. */
const areaOf = (file: string) => /^test\/(systems|long)\/[^/]+/.exec(file)?.[0] ?? 'test';

const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
const namedFiles = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
const isSystemsRun = options.includes('--systems');
// More than the CPUs, because most tests mostly wait.
const concurrency = availableParallelism() + 2;

/** Tests that damage a cluster have their own, often several. Two at a time would run into the time limits of Slurm. */
let isSlurmTaskRunning = false;

// Tests spawn servers from this build.
await build();
const files = findFiles();
const results: Result[] = [];
const memoryDisk = useMemoryDisk();
const sqliteTemplate = await createSqliteTemplate();
const tasks = planTasks(files);
const slurmTasks = new Set(tasks.filter(startsSlurm));
const needsPostgres = tasks.some(({ database }) => database === 'postgres');
const postgres = needsPostgres ? await startPostgres() : undefined;
let slurm: Awaited<ReturnType<typeof startSharedCluster>> | undefined;
try {
  if (tasks.some(sharesSlurm)) slurm = await startSharedCluster();
  if (postgres) await prepareTemplateDatabase(await postgres.database(templateDatabase));
  const [simulations, others] = [tasks.filter(simulates), tasks.filter((task) => !simulates(task))];
  // Alone, because it uses every core: beside other tasks it takes a fifth more CPU time.
  await runQueue(simulations);
  await Promise.all(Array.from({ length: concurrency }, () => runQueue(others)));
} finally {
  await slurm?.stop();
  await postgres?.close();
  removePrivateFiles(String(process.pid));
  rmSync(dirname(sqliteTemplate), { recursive: true });
  memoryDisk?.unmount();
}
summarize();

function hasLongRun(file: string): boolean {
  return findImports(file).has('test/support/long-run.ts');
}

function findFiles(): string[] {
  if (namedFiles.length > 0) return filterRunnable(namedFiles);
  const all = globSync('test/**/*.test.ts', { exclude: ['test/*/node_modules'] }).sort();
  if (options.includes('--long')) return filterRunnable(all.filter((file) => isIn('long', file) || hasLongRun(file)));
  if (isSystemsRun) return filterRunnable(all.filter((file) => isIn('systems', file) || runsOnBothDatabases(file)));
  return all.filter((file) => !isIn('systems', file) && !isIn('long', file));
}

function isIn(folder: string, file: string): boolean {
  return file.startsWith(`test/${folder}/`);
}

function planTasks(all: readonly string[]): Task[] {
  const onlyDatabase = process.env.BURSAR_TEST_DATABASE;
  const isNamedRun = namedFiles.length > 0;
  // `npm test` has run the others on SQLite.
  const sqliteFiles = all.filter((file) => !isSystemsRun || isIn('systems', file));
  const bothFiles = isSystemsRun || isNamedRun ? all.filter(runsOnBothDatabases) : [];
  const postgresFiles = onlyDatabase === 'postgres' ? all : onlyDatabase === 'sqlite' ? [] : bothFiles;
  const hasPostgres = postgresFiles.length > 0 && isAvailableOrReport('PostgreSQL', postgresFiles.length);
  const planned: Task[] = [
    ...(onlyDatabase === 'postgres' ? [] : groupFiles(sqliteFiles)).map(
      (files): Task => ({ files, database: 'sqlite' }),
    ),
    ...(hasPostgres ? groupFiles(postgresFiles) : []).map((files): Task => ({ files, database: 'postgres' })),
  ];
  return planned.toSorted((a, b) => startOrder(a) - startOrder(b));
}

/** The longest first, so that no run ends by waiting for one: Slurm, groups that wait, large groups. */
function startOrder({ files: [file = '', ...others] }: Task): number {
  if (usesSlurm(file)) return -3 * maxGroupSize;
  const waits = [file, ...others].some((name) => /^test\/(cli|workers)\//.test(name));
  return -others.length - (waits ? maxGroupSize : 0);
}

/** Named files are not grouped: each then runs as it does alone. */
function groupFiles(all: readonly string[]): string[][] {
  if (namedFiles.length > 0) return all.map((file) => [file]);
  const folders = Map.groupBy(all, (file) => (startsSimulation(file) || usesSlurm(file) ? file : areaOf(file)));
  return [...folders.values()].flatMap((group) =>
    Array.from({ length: Math.ceil(group.length / maxGroupSize) }, (_, index) =>
      group.slice(index * maxGroupSize, (index + 1) * maxGroupSize),
    ),
  );
}

/**
 * Takes the next task: one that starts Slurm if none of them runs, so that they follow each other from the beginning, otherwise
 * another one. If all that are left have to wait, nothing is left to do for the caller: who runs the present one takes them.
 */
function takeTask(queue: Task[]): Task | undefined {
  const index = queue.findIndex((task) => slurmTasks.has(task) !== isSlurmTaskRunning);
  if (index >= 0) return queue.splice(index, 1)[0];
  return isSlurmTaskRunning ? undefined : queue.shift();
}

function sharesSlurm({ files: taskFiles }: Task): boolean {
  return taskFiles.some(usesSharedCluster);
}

function simulates({ files: taskFiles }: Task): boolean {
  return taskFiles.some(startsSimulation);
}

function startsSlurm({ files: taskFiles }: Task): boolean {
  return taskFiles.some(usesOwnCluster);
}

async function runQueue(queue: Task[]): Promise<void> {
  for (let task = takeTask(queue); task !== undefined; task = takeTask(queue)) {
    const isSlurmTask = slurmTasks.has(task);
    if (isSlurmTask) isSlurmTaskRunning = true;
    const result = await runTask(task);
    if (isSlurmTask) isSlurmTaskRunning = false;
    results.push(result);
    if (namedFiles.length > 0 || result.failed > 0) console.log(result.report);
    console.log(`${result.failed > 0 ? '✖' : '✔'} ${lineFor(result)}`);
  }
}

async function runTask(task: Task): Promise<Result> {
  const startedAt = performance.now();
  const result: Result = {
    ...task,
    seconds: 0,
    fileSeconds: new Map(),
    passed: 0,
    failed: 0,
    skipped: 0,
    failures: [],
    report: '',
  };
  const env = {
    ...process.env,
    NODE_COMPILE_CACHE: compileCache,
    BURSAR_TEST_DATABASE: task.database,
    [privateFilesVariable]: String(process.pid),
    [sqliteTemplateVariable]: sqliteTemplate,
    ...(postgres ? { BURSAR_TEST_POSTGRES: postgres.url('postgres') } : {}),
    ...slurm?.env,
  };
  const isGroup = task.files.length > 1;
  const events = run({
    files: isGroup ? ['scripts/test-group.ts'] : task.files,
    argv: isGroup ? task.files : [],
    env,
    concurrency: 1,
    timeout: 1_800_000,
  });
  events.on('test:summary', ({ file, counts }) => {
    if (file !== undefined) return;
    // The types lack `failed`.
    const { passed, failed, cancelled, skipped, todo } = counts as typeof counts & { failed: number };
    Object.assign(result, { passed, failed: failed + cancelled, skipped: skipped + todo });
  });
  events.on('test:fail', ({ name, file, line, details }) => {
    // A suite fails if one of its tests does, which is reported itself, or if its file cannot be loaded.
    const { failureType, message, cause } = details.error as Error & { failureType?: string };
    if (details.type === 'suite' && failureType === 'subtestsFailed') return;
    // The cause is what a test or a hook threw.
    const lines = (cause instanceof Error ? cause.message : message).split('\n').slice(0, maxErrorLines);
    result.failures.push(`${name} (${file}:${line}, ${task.database}): ${lines.join('\n    ')}`);
  });
  // In a group, each file is a suite.
  events.on('test:complete', ({ name, details }) => {
    if (isGroup && task.files.includes(name)) result.fileSeconds.set(name, details.duration_ms / 1000);
  });
  for await (const text of events.compose(spec)) result.report += text;
  // The summary does not count suites.
  result.failed = Math.max(result.failed, result.failures.length);
  result.seconds = (performance.now() - startedAt) / 1000;
  if (!isGroup) result.fileSeconds.set(task.files[0] ?? '', result.seconds);
  return result;
}

function lineFor({ files: [file = '', ...others], database, seconds, passed, failed }: Result): string {
  const counts = failed > 0 ? `${passed} passed, ${failed} failed` : `${passed} passed`;
  const name = others.length === 0 ? file : `${file} to ${others.at(-1)} (${others.length + 1} files)`;
  return `${name}${onDatabase(database)}: ${counts} in ${seconds.toFixed(1)} s`;
}

function onDatabase(database: Task['database']): string {
  return database === 'postgres' ? ' on PostgreSQL' : '';
}

function summarize(): void {
  const sum = (count: (result: Result) => number) => results.reduce((total, result) => total + count(result), 0);
  const [passed, failed, skipped] = [sum((r) => r.passed), sum((r) => r.failed), sum((r) => r.skipped)];
  console.log('\nThe slowest files:');
  const times = results.flatMap(({ fileSeconds, database }) =>
    [...fileSeconds].map(([file, seconds]) => ({ name: `${file}${onDatabase(database)}`, seconds })),
  );
  for (const { name, seconds } of times.toSorted((a, b) => b.seconds - a.seconds).slice(0, 15))
    console.log(`  ${name}: ${seconds.toFixed(1)} s`);
  console.log('');
  for (const failure of results.flatMap(({ failures }) => failures)) console.log(`✖ ${failure}`);
  console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
  // Only root can run jobs as other accounts: such tests are skipped for other developers, but never in CI.
  const hasForbiddenSkip = skipped > 0 && process.env.CI === 'true';
  process.exitCode = failed > 0 || hasForbiddenSkip || passed === 0 ? 1 : 0;
}
