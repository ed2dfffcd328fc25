import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BatchIsolation } from '../../src/engines/batch/backend.ts';
import type { EngineJob } from '../../src/engines/engine.ts';
import { createPrivateFiles } from '../../src/engines/local/sandbox.ts';
import { createPipeStock } from '../../src/engines/local/supervisor/output.ts';
import { type RunSettings, runJob } from '../../src/engines/local/supervisor/run-job.ts';
import { createLimitWatcher } from '../../src/engines/local/supervisor/watch-limits.ts';
import { buildSlurmScript } from '../../src/engines/slurm/steps.ts';
import { localSandbox, slurmIsolation } from '../../test/support/bubblewrap.ts';
import type { Benchmark } from '../benchmark.ts';
import { quantile } from '../statistics.ts';

/**
 * Measures the time that a sandbox adds to a job that does nothing, from its start to its end, on the local engine and on
 * Slurm.
 * On Slurm the wrapper isolates the job. Here bash runs it without Slurm, which is the same with and without isolation.
 */
export const isolation: Benchmark = {
  name: 'isolation',
  requires: ['bubblewrap'],
  async run(bench) {
    const folder = bench.temporaryFolder('isolation');
    const directory = join(folder, 'files');
    await mkdir(directory);
    const limits = { memoryMb: 1000, outputKb: 1000, killGraceSeconds: 1 };
    const sandbox = localSandbox({ hidden: [folder] });

    const job: EngineJob = {
      jobId: 'BENCHMARK',
      nodes: 1,
      coresPerNode: 1,
      runtimeSeconds: 60,
      command: { kind: 'argv', argv: ['true'] },
      workspace: { directory, stdout: join(folder, 'stdout'), stderr: join(folder, 'stderr') },
      site: {},
    };

    const limitWatcher = createLimitWatcher();
    const privateFiles = createPrivateFiles();
    const pipes = createPipeStock();
    async function runLocalSeconds(settings: Partial<RunSettings>): Promise<number> {
      const startedAt = performance.now();
      const end = await runJob({
        limits,
        ...settings,
        job,
        folder,
        startedAt: Date.now(),
        findStopRequest: () => null,
        isEnded: () => false,
        onStarted() {},
        onExit() {},
        limitWatcher,
        privateFiles,
        pipes,
      });
      if (end.outcome !== 'succeeded') throw new Error(end.reason);
      return (performance.now() - startedAt) / 1000;
    }

    async function runWrapperSeconds(isolation: BatchIsolation | null): Promise<number> {
      const cwd = await mkdtemp(join(folder, 'slurm-'));
      const workspace = { ...job.workspace, directory: cwd };
      const script = `${cwd}.sh`;
      await writeFile(script, buildSlurmScript({ ...job, workspace }, isolation));
      const startedAt = performance.now();
      const [code] = await once(spawn('bash', [script], { cwd, stdio: 'ignore' }), 'exit');
      if (code !== 0) throw new Error(`the wrapper exited with ${code}`);
      return (performance.now() - startedAt) / 1000;
    }

    /** The median difference of jobs that run alternately. */
    async function medianDifference(withSandbox: () => Promise<number>, without: () => Promise<number>) {
      const differences: number[] = [];
      for (let n = 0; n < bench.size.isolatedJobs; n++) {
        const plain = await without();
        differences.push((await withSandbox()) - plain);
      }
      return quantile(
        differences.sort((a, b) => a - b),
        0.5,
      );
    }

    await bench.measure({
      scenario: 'a job in a sandbox, more than without one',
      baseline: '30 ms',
      unit: 's',
      threshold: { atMost: 0.03 },
      ours: () =>
        medianDifference(
          () => runLocalSeconds({ sandbox }),
          () => runLocalSeconds({}),
        ),
    });

    const slurm = slurmIsolation({ hidden: [{ path: folder, kind: 'folder' }] });
    await bench.measure({
      scenario: 'the wrapper of an isolated job on Slurm, more than of another one',
      baseline: '100 ms',
      unit: 's',
      threshold: { aim: 0.1 },
      ours: () =>
        medianDifference(
          () => runWrapperSeconds(slurm),
          () => runWrapperSeconds(null),
        ),
    });
  },
};
