// Compares Bursar with the bare components that it is built on: `npm run bench`, or `npm run bench -- <name>…`.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { isAvailable } from '../scripts/external-software.ts';
import type { Bench, Benchmark, Row } from './benchmark.ts';
import { benchmarks } from './benchmarks.ts';
import { startLoadGenerator } from './load.ts';
import { describeMachine, formatTable, loadAverage, type Report } from './report.ts';
import { compare, compareFigures, measure, measureFigures } from './rounds.ts';
import { fullSize, smokeSize } from './size.ts';

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    smoke: { type: 'boolean', default: false },
    jobs: { type: 'string' },
    rounds: { type: 'string' },
    'soak-minutes': { type: 'string' },
    profile: { type: 'string' },
    out: { type: 'string', default: 'bench/results/latest.json' },
  },
});

const size = { ...(options.smoke ? smokeSize : fullSize) };
if (options.jobs !== undefined) size.storedJobs = parseWholeNumber('--jobs', options.jobs);
if (options.rounds !== undefined) size.rounds = parseWholeNumber('--rounds', options.rounds);
const soakMinutes = options['soak-minutes'];
if (soakMinutes !== undefined) size.soakSeconds = parseWholeNumber('--soak-minutes', soakMinutes) * 60;
const selected = names.length === 0 ? benchmarks : names.map(findBenchmark);

const loadBefore = loadAverage();
const rows: Row[] = [];
const notRun: Record<string, string> = {};
const loadGenerator = await startLoadGenerator();
try {
  for (const benchmark of selected) {
    const missing = benchmark.requires?.find((software) => !isAvailable(software));
    if (missing === undefined) await run(benchmark);
    else notRun[benchmark.name] = `${missing} is not installed here`;
  }
} finally {
  await loadGenerator.close();
}

const judged = !options.smoke;
const machine = describeMachine(loadBefore);
const report: Report = { at: new Date().toISOString(), machine, judged, rows, notRun };
mkdirSync(dirname(options.out), { recursive: true });
writeFileSync(options.out, `${JSON.stringify(report, null, 2)}\n`);
console.log(`\n${formatTable(report)}\n\nDetails: ${options.out}`);
if (judged && rows.some(({ met }) => !met)) process.exitCode = 1;

async function run(benchmark: Benchmark): Promise<void> {
  const log = (text: string) => console.error(`${benchmark.name}: ${text}`);
  const cleanups: (() => Promise<unknown> | unknown)[] = [];
  const rounds = { benchmark: benchmark.name, rounds: size.rounds, log };
  const bench: Bench = {
    size,
    loadGenerator,
    profileFolder: options.profile,
    log,
    defer: (cleanup) => cleanups.push(cleanup),
    temporaryFolder(name) {
      const folder = mkdtempSync(join(tmpdir(), `bursar-bench-${name}-`));
      cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
      return folder;
    },
    compare: async (comparison) => void rows.push(...(await compare(rounds, comparison))),
    compareFigures: async (comparison) => void rows.push(...(await compareFigures(rounds, comparison))),
    measure: async (measurement) => void rows.push(...(await measure(rounds, measurement))),
    measureFigures: async (measurement) => void rows.push(...(await measureFigures(rounds, measurement))),
  };
  log('setting up');
  const startedAt = performance.now();
  try {
    await benchmark.run(bench);
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup();
    log(`took ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  }
}

function findBenchmark(name: string): Benchmark {
  const found = benchmarks.find((benchmark) => benchmark.name === name);
  if (found !== undefined) return found;
  const available = benchmarks.map((benchmark) => benchmark.name).join(', ');
  console.error(`There is no benchmark "${name}". Available: ${available}.`);
  process.exit(2);
}

function parseWholeNumber(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  console.error(`${option} must be a positive whole number, not "${text}".`);
  process.exit(2);
}
