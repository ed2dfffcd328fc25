// Measures Bursar against the limits of what it is made of: `npm run bench`, or `npm run bench -- <name>…`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { isHere } from '../scripts/peers.ts';
import type { Bench, Benchmark, Row } from './benchmark.ts';
import { benchmarks } from './benchmarks.ts';
import { startLoadGenerator } from './load.ts';
import { describeMachine, formatTable, loadAverage, type Report } from './report.ts';
import { compare, measure } from './rounds.ts';
import { fullSize, smokeSize } from './size.ts';

const { values: options, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    smoke: { type: 'boolean', default: false },
    jobs: { type: 'string' },
    rounds: { type: 'string' },
    profile: { type: 'string' },
    out: { type: 'string', default: 'bench/results/latest.json' },
  },
});

const size = { ...(options.smoke ? smokeSize : fullSize) };
if (options.jobs !== undefined) size.storedJobs = parseWholeNumber('--jobs', options.jobs);
if (options.rounds !== undefined) size.rounds = parseWholeNumber('--rounds', options.rounds);
const chosen = names.length === 0 ? benchmarks : names.map(findBenchmark);

const loadBefore = loadAverage();
const rows: Row[] = [];
const notRun: Record<string, string> = {};
const loader = await startLoadGenerator();
try {
  for (const benchmark of chosen) {
    const missing = benchmark.peers?.find((peer) => !isHere(peer));
    if (missing === undefined) await run(benchmark);
    else notRun[benchmark.name] = `${missing} is not installed here`;
  }
} finally {
  await loader.close();
}

const judged = !options.smoke;
const machine = describeMachine(loadBefore);
const report: Report = { at: new Date().toISOString(), machine, judged, rows, notRun };
mkdirSync(dirname(options.out), { recursive: true });
writeFileSync(options.out, `${JSON.stringify(report, null, 2)}\n`);
console.log(`\n${formatTable(report)}\n\nMore of it in ${options.out}.`);
if (judged && rows.some(({ met }) => !met)) process.exitCode = 1;

async function run(benchmark: Benchmark): Promise<void> {
  const log = (text: string) => console.error(`${benchmark.name}: ${text}`);
  const cleanups: (() => Promise<unknown> | unknown)[] = [];
  const rounds = { benchmark: benchmark.name, rounds: size.rounds, log };
  const bench: Bench = {
    size,
    loadGenerator: loader,
    profileFolder: options.profile,
    log,
    defer: (undo) => cleanups.push(undo),
    compare: async (comparison) => void rows.push(await compare(rounds, comparison)),
    measure: async (measurement) => void rows.push(await measure(rounds, measurement)),
  };
  log('getting ready');
  try {
    await benchmark.run(bench);
  } finally {
    for (const undo of cleanups.reverse()) await undo();
  }
}

function findBenchmark(name: string): Benchmark {
  const found = benchmarks.find((benchmark) => benchmark.name === name);
  if (found !== undefined) return found;
  const known = benchmarks.map((benchmark) => benchmark.name).join(', ');
  console.error(`There is no benchmark "${name}". Known are ${known}.`);
  process.exit(2);
}

function parseWholeNumber(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  console.error(`${option} takes a whole number, not "${text}".`);
  process.exit(2);
}
