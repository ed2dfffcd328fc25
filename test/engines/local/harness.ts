import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Engine, EngineJob } from '../../../src/engines/engine.ts';
import { createLocalEngine, type LocalEngineOptions } from '../../../src/engines/local/engine.ts';
import { createSupervisorClient, type SupervisorClient } from '../../../src/engines/local/supervisor/client.ts';
import { readProcessFile } from '../../support/process-file.ts';
import { listProcesses } from '../../support/process-list.ts';
import type { EngineHarness, JobOverrides } from '../engine-harness.ts';
import { eventually, neverAborted, observeAll } from '../observing.ts';

const logFolder = mkdtempSync(join(tmpdir(), 'bursar-supervisor-'));
process.once('exit', () => rmSync(logFolder, { recursive: true }));
export const supervisorLog = join(logFolder, 'log');
/** One supervisor for the jobs of all engines of a test file. */
export const sharedSupervisor = createSupervisorClient({ logFile: supervisorLog });

export interface LocalHarness extends EngineHarness {
  /** The test's folder, which contains the workspaces. */
  root: string;
  options: LocalEngineOptions;
  /** Errors that the engine has reported. */
  errors: string[];
  recordOf(job: EngineJob): string;
}

export async function localHarness(
  overrides: Partial<LocalEngineOptions> = {},
  parentFolder = tmpdir(),
): Promise<LocalHarness> {
  const root = await mkdtemp(join(parentFolder, 'bursar-engine-'));
  const directory = join(root, 'records');
  /** Jobs whose end is not reported. One that was sent to a supervisor and has ended since may still be read. */
  let reporting = 0;
  const client = overrides.supervisor ?? sharedSupervisor;
  const supervisor: SupervisorClient = {
    run({ onEnd, ...job }) {
      client.run({
        ...job,
        onEnd(failure) {
          reporting--;
          onEnd(failure);
        },
      });
      reporting++;
    },
  };
  const errors: string[] = [];
  const options = {
    directory,
    onError: (message: string) => void errors.push(message),
    cores: 4,
    memoryMb: 1000,
    outputKb: 1000,
    killGraceSeconds: 1,
    // A supervisor that a busy machine delays is not replaced.
    supervisorGraceSeconds: 600,
    ...overrides,
    supervisor,
  };
  let engine = createLocalEngine(options);
  await engine.open(neverAborted);
  return {
    root,
    options,
    errors,
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
      await eventually(
        'all processes of the test have ended',
        async () => reporting === 0 && processesMentioning(root).length === 0,
      );
      await rm(root, { recursive: true, force: true });
    },
    wholeSystem: { nodes: 1, coresPerNode: options.cores },
    minRuntimeSeconds: 1,
    cancelReason: 'cancelled by its owner',
    recordOf: (job) => join(directory, job.jobId),
  };
}

/** Runs a test with a new local engine, and ends all of its processes afterwards. */
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

const smallJob = {
  nodes: 1,
  coresPerNode: 1,
  // Longer than any test waits.
  runtimeSeconds: 600,
  command: { kind: 'line', line: 'true' },
  site: {},
} as const;

export async function cancelAllJobs(engine: Engine): Promise<void> {
  await eventually('all jobs have ended', async () => {
    const unfinished = (await observeAll(engine)).filter(({ kind }) => kind !== 'finished');
    for (const { jobId } of unfinished) await engine.cancel(jobId, neverAborted);
    return unfinished.length === 0;
  });
}

/** The supervisor of a job exits a moment after it has recorded the end. */
export async function assertNoProcessLeft(jobId: string): Promise<void> {
  await eventually(`no process of ${jobId} is left`, async () => processesMentioning(jobId).length === 0);
}

/** Returns the pids of processes with the text in their command line or (on Linux) in their environment. */
export function processesMentioning(text: string): number[] {
  return listProcesses().flatMap(({ pid, state, command }) => {
    if (state === 'Z' || pid === process.pid) return [];
    return `${command} ${readProcessFile(pid, 'environ')}`.includes(text) ? pid : [];
  });
}
