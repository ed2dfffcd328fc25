// Measures Bursar against the limits of what it is made of: `npm run bench`, or `npm run bench -- <name>…`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { isHere } from '../scripts/peers.ts';
import type { Bench, Benchmark, Row } from './benchmark.ts';
import { benchmarks } from './benchmarks.ts';
import { startLoader } from './load.ts';
import { loadNow, machineFacts, type Report, tableOf } from './report.ts';
import { compare, measure } from './rounds.ts';
import { smallest, usual } from './size.ts';

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

const size = { ...(options.smoke ? smallest : usual) };
if (options.jobs !== undefined) size.storedJobs = wholeNumber('--jobs', options.jobs);
if (options.rounds !== undefined) size.rounds = wholeNumber('--rounds', options.rounds);
const chosen = names.length === 0 ? benchmarks : names.map(benchmarkNamed);

const loadBefore = loadNow();
const rows: Row[] = [];
const notRun: Record<string, string> = {};
const loader = await startLoader();
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
const machine = machineFacts(loadBefore);
const report: Report = { at: new Date().toISOString(), machine, judged, rows, notRun };
mkdirSync(dirname(options.out), { recursive: true });
writeFileSync(options.out, `${JSON.stringify(report, null, 2)}\n`);
console.log(`\n${tableOf(report)}\n\nMore of it in ${options.out}.`);
if (judged && rows.some(({ met }) => !met)) process.exitCode = 1;

async function run(benchmark: Benchmark): Promise<void> {
  const say = (text: string) => console.error(`${benchmark.name}: ${text}`);
  const undos: (() => Promise<unknown> | unknown)[] = [];
  const rounds = { benchmark: benchmark.name, rounds: size.rounds, say };
  const bench: Bench = {
    size,
    loader,
    profileFolder: options.profile,
    say,
    defer: (undo) => undos.push(undo),
    compare: async (comparison) => void rows.push(await compare(rounds, comparison)),
    measure: async (measurement) => void rows.push(await measure(rounds, measurement)),
  };
  say('getting ready');
  try {
    await benchmark.run(bench);
  } finally {
    for (const undo of undos.reverse()) await undo();
  }
}

function benchmarkNamed(name: string): Benchmark {
  const found = benchmarks.find((benchmark) => benchmark.name === name);
  if (found !== undefined) return found;
  const known = benchmarks.map((benchmark) => benchmark.name).join(', ');
  console.error(`There is no benchmark "${name}". Known are ${known}.`);
  process.exit(2);
}

function wholeNumber(option: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  console.error(`${option} takes a whole number, not "${text}".`);
  process.exit(2);
}
