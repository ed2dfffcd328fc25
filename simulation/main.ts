// Simulates whole servers under virtual time, with faults that a seed decides. See docs/simulation.md.
//   npm run simulate                            1,000 new histories
//   npm run simulate -- --histories 50 --first 1    these seeds
//   npm run simulate -- --seed 17 --trace       one history, line by line
//   npm run simulate -- --mutations             whether it finds the faults of a table, each in a copy of the sources
import { parseArgs } from 'node:util';
import { checkMutations } from './check-mutations.ts';
import { runSeeds, traceSeed } from './run-seeds.ts';

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
    histories: { type: 'string', default: '1000' },
    /** Default: a seed that was probably never used. */
    first: { type: 'string', default: String(Date.now() % 2 ** 31) },
    mutations: { type: 'boolean', default: false },
    /** Only the mutations whose names contain this. */
    name: { type: 'string', default: '' },
  },
});

let hasFailed: boolean;
if (options.mutations) hasFailed = !(await checkMutations(options.name));
else if (options.seed !== undefined) hasFailed = await runOne(Number(options.seed), options.trace);
else hasFailed = await runMany(Number(options.first), Number(options.histories));
process.exitCode = hasFailed ? 1 : 0;

async function runOne(seed: number, isTraced: boolean): Promise<boolean> {
  const { lines = [], hash, faults, jobs, virtualSeconds, problems } = await traceSeed(seed, 'trace');
  if (isTraced) console.log(lines.join('\n'));
  console.log(`seed ${seed}: ${jobs} jobs, ${faults} faults, ${virtualSeconds} virtual seconds, trace ${hash}`);
  for (const problem of problems) console.log(`✖ ${problem}`);
  if (problems.length > 0) await showShortened(seed);
  return problems.length > 0;
}

async function runMany(first: number, count: number): Promise<boolean> {
  const startedAt = performance.now();
  const results = await runSeeds(first, first + count - 1, {
    onResult({ seed, problems }) {
      if (problems.length > 0) console.log(`✖ seed ${seed}: ${problems.join('\n    ')}`);
    },
  });
  const sum = (key: 'faults' | 'jobs' | 'virtualSeconds') => results.reduce((total, result) => total + result[key], 0);
  const failed = results.filter(({ problems }) => problems.length > 0);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
  const hours = Math.round(sum('virtualSeconds') / 3600);
  const counts = `${sum('jobs')} jobs, ${sum('faults')} faults, ${hours} virtual hours`;
  console.log(`${results.length} histories from seed ${first}: ${counts} in ${seconds} s; ${failed.length} failed`);
  if (failed[0] !== undefined) await showShortened(failed[0].seed);
  return failed.length > 0;
}

async function showShortened(seed: number): Promise<void> {
  console.log(`\nSeed ${seed} fails. The shortest history that was found:`);
  const { lines = [], servers, actions, plannedFaults, problems } = await traceSeed(seed, 'shorten');
  console.log(lines.join('\n'));
  console.log(`${servers} servers, ${actions} actions, ${plannedFaults} faults`);
  for (const problem of problems) console.log(`✖ ${problem}`);
}
