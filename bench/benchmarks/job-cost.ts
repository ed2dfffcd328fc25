import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { createSlots } from '../../src/domain/slots.ts';
import { sandboxArguments } from '../../src/engines/sandbox/arguments.ts';
import { findHiddenPaths, findPrivateFiles } from '../../src/engines/sandbox/host.ts';
import { createCaller } from '../../test/support/api.ts';
import { localSandbox } from '../../test/support/bubblewrap.ts';
import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchServer, startBursar, unlimitedConfig } from '../bursar.ts';
import { treeCpuSeconds } from '../processes.ts';
import { waitUntilAllEnded } from '../users/population.ts';

const execFileAsync = promisify(execFile);
const clientCount = 4;

/** Submits jobs of `true` and waits for their ends. Returns the CPU time of a job, in milliseconds, and the jobs a second. */
async function runJobs(bursar: BenchServer, jobs: number): Promise<[number, number]> {
  const client = createCaller(bursar.url, bursar.userToken);
  const payload = { command: 'true', node_number: '1', core_number: '1', runtime: '0.1' };
  const slots = createSlots({ total: clientCount });
  const [cpuBefore, startedAt] = [treeCpuSeconds(bursar.pid), performance.now()];
  await Promise.all(
    Array.from({ length: jobs }, () =>
      slots.run(async () => {
        const { status, text } = await client.submit('/jobs/hpc_one/', payload);
        if (status !== 201) throw new Error(`the submission was rejected: ${text}`);
      }),
    ),
  );
  await waitUntilAllEnded({ bursar });
  const seconds = (performance.now() - startedAt) / 1000;
  return [((treeCpuSeconds(bursar.pid) - cpuBefore) / jobs) * 1000, jobs / seconds];
}

/** Runs `true` in a sandbox that hides what that of a job does, again and again, on two cores. Returns the same figures. */
async function runSandboxes(bench: Bench, count: number): Promise<[number, number]> {
  const directory = bench.temporaryFolder('sandboxes');
  const { program, readOnly, network } = localSandbox();
  const folders = { directory, temporaryFolder: directory, startDirectory: directory };
  const args = sandboxArguments({
    ...folders,
    readOnly,
    network,
    hidden: findHiddenPaths(findPrivateFiles(undefined)),
  });
  // `times` prints the CPU time of the shell and then that of its children, user and system.
  const loop = `for ((i = 0; i < ${count / 2}; i++)); do "$@"; done; times`;
  const startedAt = performance.now();
  const runLoop = async () => {
    const { stdout } = await execFileAsync('bash', ['-c', loop, 'bash', program, ...args, 'true']);
    const times = [...stdout.matchAll(/(\d+)m([\d.]+)s/g)];
    return times.reduce((sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds), 0);
  };
  const [one, other] = await Promise.all([runLoop(), runLoop()]);
  return [((one + other) / count) * 1000, count / ((performance.now() - startedAt) / 1000)];
}

/**
 * The CPU time of all processes of the server for one isolated job that does nothing, on the embedded default. Where a sandbox takes
 * 1.75 ms, the threshold is 30 ms. The first processes of the sandboxes are not measured, on either side.
 */
export const jobCost: Benchmark = {
  name: 'job-cost',
  requires: ['bubblewrap'],
  async run(bench) {
    const bursar = await startBursar(bench, { config: unlimitedConfig(), isPinned: false });
    const baseline = 'bwrap true';
    await bench.compareFigures({
      rows: [
        { scenario: 'CPU time of a local job of `true`', baseline, unit: 'ms', threshold: { atMost: 17 } },
        { scenario: 'local jobs of `true`', baseline, unit: 'jobs/s', threshold: { atLeast: 0.1 } },
      ],
      ours: () => runJobs(bursar, bench.size.shortJobs),
      theirs: () => runSandboxes(bench, bench.size.shortJobs),
    });
  },
};
