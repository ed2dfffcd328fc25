import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, EngineJob } from '../../src/engines/engine.ts';
import { createLocalEngine, type LocalEngineOptions } from '../../src/engines/local/engine.ts';
import type { EngineHarness, JobOverrides } from './engine-contract.ts';
import { eventually, never } from './observing.ts';

export interface LocalHarness extends EngineHarness {
  /** A folder of the test's own, above the workspaces. */
  root: string;
  options: LocalEngineOptions;
  recordOf(job: EngineJob): string;
}

export async function localHarness(overrides: Partial<LocalEngineOptions> = {}): Promise<LocalHarness> {
  const root = await mkdtemp(join(tmpdir(), 'bursar-engine-'));
  const directory = join(root, 'records');
  const options = { directory, cores: 4, memoryMb: 1000, outputKb: 1000, killGraceSeconds: 1, ...overrides };
  let engine = createLocalEngine(options);
  await engine.open(never);
  return {
    root,
    options,
    get engine() {
      return engine;
    },
    newJob: (overrides) => newLocalJob(root, overrides),
    async reopen() {
      await engine.close();
      engine = createLocalEngine(options);
      await engine.open(never);
      return engine;
    },
    async close() {
      await endAll(engine);
      await engine.close();
      const stray = await eventually('all processes of the test are gone', async () => {
        const left = processesMentioning(root);
        return left.length === 0 ? 'none' : false;
      });
      await rm(root, { recursive: true, force: true });
      return void stray;
    },
    wholeSystem: { nodes: 1, coresPerNode: options.cores },
    shortestRuntimeSeconds: 1,
    recordOf: (job) => join(directory, job.jobId),
  };
}

export async function newLocalJob(root: string, overrides: JobOverrides = {}): Promise<EngineJob> {
  const jobId = overrides.jobId ?? randomUUID().toUpperCase();
  const home = join(root, 'jobs', jobId);
  const directory = join(home, 'work');
  await mkdir(directory, { recursive: true });
  return {
    jobId,
    nodes: 1,
    coresPerNode: 1,
    runtimeSeconds: 60,
    command: { kind: 'line', line: 'true' },
    workspace: { directory, stdout: join(home, 'stdout'), stderr: join(home, 'stderr') },
    ...overrides,
  };
}

export async function endAll(engine: Engine): Promise<void> {
  await eventually('all jobs have ended', async () => {
    const open = (await engine.observe(never)).filter(({ kind }) => kind !== 'finished');
    for (const { jobId } of open) await engine.cancel(jobId, never);
    return open.length === 0;
  });
}

/** Living processes that have the text in their command line or in their environment: supervisors, jobs, strays. */
export function processesMentioning(text: string): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .filter((pid) => {
      try {
        if (/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))) return false;
        const known = ['cmdline', 'environ'].map((file) => readFileSync(`/proc/${pid}/${file}`, 'latin1'));
        return known.join('\0').includes(text);
      } catch {
        return false;
      }
    });
}
