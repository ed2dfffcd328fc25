import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Engine, EngineJob } from '../../../src/engines/engine.ts';
import { createLocalEngine, type LocalEngineOptions } from '../../../src/engines/local/engine.ts';
import type { EngineHarness, JobOverrides } from '../engine-harness.ts';
import { eventually, neverAborted, observeAll } from '../observing.ts';

export interface LocalHarness extends EngineHarness {
  /** A folder of the test's own, above the workspaces. */
  root: string;
  options: LocalEngineOptions;
  recordOf(job: EngineJob): string;
}

/** One for all engines of a test file: with a new one every time, their first supervisors would start slowly. */
const sharedCache = mkdtempSync(join(tmpdir(), 'bursar-cache-'));
process.on('exit', () => rmSync(sharedCache, { recursive: true, force: true }));

export async function localHarness(overrides: Partial<LocalEngineOptions> = {}): Promise<LocalHarness> {
  const root = await mkdtemp(join(tmpdir(), 'bursar-engine-'));
  const directory = join(root, 'records');
  const options = { directory, cores: 4, memoryMb: 1000, outputKb: 1000, killGraceSeconds: 1, ...overrides };
  await mkdir(directory);
  await symlink(sharedCache, join(directory, '.cache'));
  let engine = createLocalEngine(options);
  await engine.open(neverAborted);
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
      await engine.open(neverAborted);
      return engine;
    },
    async close() {
      await cancelAllJobs(engine);
      await engine.close();
      await eventually('no process of the test is left', async () => processesMentioning(root).length === 0);
      await rm(root, { recursive: true, force: true });
    },
    wholeSystem: { nodes: 1, coresPerNode: options.cores },
    minRuntimeSeconds: 1,
    cancelReason: 'cancelled by its owner',
    recordOf: (job) => join(directory, job.jobId),
  };
}

/** Runs a test on a local engine of its own, and sees to it that nothing is left of it. */
export function localTest(
  title: string,
  options: Partial<LocalEngineOptions>,
  body: (harness: LocalHarness) => Promise<void>,
): void {
  test(title, async () => {
    const harness = await localHarness(options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}

export async function newLocalJob(root: string, overrides: JobOverrides = {}): Promise<EngineJob> {
  const jobId = overrides.jobId ?? newJobId();
  const home = join(root, 'jobs', jobId);
  const directory = join(home, 'work');
  await mkdir(directory, { recursive: true });
  const workspace = { directory, stdout: join(home, 'stdout'), stderr: join(home, 'stderr') };
  return { ...smallJob, jobId, workspace, ...overrides };
}

export const newJobId = () => randomUUID().toUpperCase();

export const smallJob = {
  nodes: 1,
  coresPerNode: 1,
  runtimeSeconds: 60,
  command: { kind: 'line', line: 'true' },
  site: {},
} as const;

export async function cancelAllJobs(engine: Engine): Promise<void> {
  await eventually('all jobs have ended', async () => {
    const open = (await observeAll(engine)).filter(({ kind }) => kind !== 'finished');
    for (const { jobId } of open) await engine.cancel(jobId, neverAborted);
    return open.length === 0;
  });
}

/**
 * Living processes that have the text in their command line or (on Linux) in their environment: supervisors, jobs,
 * strays.
 */
export function processesMentioning(text: string): number[] {
  const rows = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,stat=,args='], { encoding: 'utf8' }).split('\n');
  return rows.flatMap((row) => {
    const [, pid, stat, command] = /^\s*(\d+)\s+(\S+)\s+(.*)$/.exec(row) ?? [];
    if (pid === undefined || stat?.startsWith('Z') || Number(pid) === process.pid) return [];
    return `${command} ${environmentOf(pid)}`.includes(text) ? Number(pid) : [];
  });
}

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}
