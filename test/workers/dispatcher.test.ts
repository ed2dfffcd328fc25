import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import { BursarError } from '../../src/domain/errors.ts';
import type { Engine, SubmitOptions } from '../../src/engines/engine.ts';
import type { Spool } from '../../src/files/spool/spool.ts';
import type { Workspaces } from '../../src/files/workspaces/workspaces.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { findProject } from '../../src/store/identity/projects.ts';
import { findJob, insertJob } from '../../src/store/jobs/jobs.ts';
import { startDispatcher } from '../../src/workers/jobs/dispatcher.ts';
import type { LeasedSystemDeps } from '../../src/workers/jobs/system-deps.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const silentLog = { info: () => undefined, warn: () => undefined, error: () => undefined };

/** Uses a fake engine: no real one fails, or hangs, at an exact moment. */
describe('dispatcher', () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await openTestDatabase(['1'], 10_000, 1000);
  });
  afterEach(() => database.close());

  async function insertJobs(...jobIds: string[]): Promise<void> {
    const project = await findProject(database.db, 'sys', 'proj');
    assert.ok(project);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    for (const jobId of jobIds) {
      const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
      await inTransaction(database.db, (tx) => insertJob(tx, job, publicColumns('QUEUED'), {}));
    }
  }

  function start(engine: Partial<Engine>, stage = async () => {}) {
    /** Retries are due at once. */
    let now = 10_000;
    const deps = {
      db: database.db,
      lease: { assertValid: () => undefined, transaction: (work) => inTransaction(database.db, work) },
      engine: { find: async () => new Map(), ...engine } as Engine,
      system: toHpcSystems(database.config).get('sys'),
      workspaces: {
        stage: stage as unknown as Workspaces['stage'],
        pathsOf: () => ({ directory: '', stdout: '', stderr: '' }),
      } as Partial<Workspaces> as Workspaces,
      spool: { remove: async () => undefined } as Partial<Spool> as Spool,
      siteOptions: () => ({}),
      maxJobsPerUser: 100,
      delayAlarmMs: 1e9,
      publish: () => undefined,
      now: () => (now += 100_000),
      log: silentLog,
    } as Partial<LeasedSystemDeps> as LeasedSystemDeps;
    return startDispatcher(deps, () => undefined);
  }

  const untilQueued = (jobId: string) =>
    until(
      `${jobId} is queued`,
      async () => (await findJob(database.db, jobId))?.status.state === 'queued' || undefined,
    );

  test('submits jobs while the releases of others hang, and aborts these when it stops', async () => {
    const jobIds = Array.from({ length: 10 }, (_, index) => `job-${index}`);
    await insertJobs(...jobIds);
    let aborted = 0;
    const dispatcher = start({
      submit: async ({ jobId }) => jobId,
      async release(_refs, signal) {
        await once(signal, 'abort');
        aborted++;
        throw signal.reason;
      },
    });
    for (const jobId of jobIds) await untilQueued(jobId);
    await dispatcher.stop();
    assert.equal(aborted, jobIds.length);
  });

  test('submits eight jobs at the same time, and prepares others meanwhile, which have not been tried if it stops', async () => {
    const jobIds = Array.from({ length: 20 }, (_, index) => `job-${index}`);
    await insertJobs(...jobIds);
    const submitting: string[] = [];
    let staged = 0;
    const dispatcher = start(
      {
        async submit({ jobId }, signal, options) {
          options?.beforeSubmission?.();
          submitting.push(jobId);
          await once(signal, 'abort');
          throw signal.reason;
        },
      },
      async () => {
        staged++;
      },
    );
    await until('the jobs of one user are prepared', () => (staged === 12 && submitting.length === 8) || undefined);
    await dispatcher.stop();
    assert.equal(submitting.length, 8);
    for (const jobId of jobIds) {
      assert.equal((await findJob(database.db, jobId))?.tries, submitting.includes(jobId) ? 1 : 0, jobId);
    }
  });

  test('calls a submission the first try only if no earlier one can have reached the engine', async () => {
    await insertJobs('job');
    const tries: boolean[] = [];
    const failures = [
      () => new BursarError('queue_full', 'full', { transient: true }),
      (options: SubmitOptions) => {
        options.beforeSubmission?.();
        return new BursarError('queue_full', 'full', { transient: true });
      },
      () => new BursarError('unavailable', 'before sbatch', { transient: true }),
      (options: SubmitOptions) => {
        options.beforeSubmission?.();
        return new BursarError('unavailable', 'the response was lost', { transient: true });
      },
      () => new BursarError('unavailable', 'before sbatch', { transient: true }),
    ];
    let hasStaged = false;
    const dispatcher = start(
      {
        async submit(_job, _signal, options = {}) {
          tries.push(options.isFirstTry === true);
          const failure = failures.shift();
          if (failure !== undefined) throw failure(options);
          return '7';
        },
        release: async () => undefined,
      },
      async () => {
        if (hasStaged) return;
        hasStaged = true;
        throw new BursarError('unavailable', 'the host is down', { transient: true });
      },
    );
    await untilQueued('job');
    await dispatcher.stop();
    assert.deepEqual(tries, [true, true, true, true, false, false]);
  });
});
