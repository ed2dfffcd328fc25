import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import type { EndRecord } from '../../src/domain/jobs/end-record.ts';
import type { JobState } from '../../src/domain/jobs/job.ts';
import type { Observation } from '../../src/domain/jobs/transition.ts';
import type { Engine, MissingJobStatus } from '../../src/engines/engine.ts';
import type { Workspaces } from '../../src/files/workspaces/workspaces.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { findProject } from '../../src/store/identity/projects.ts';
import { findJob, insertJob } from '../../src/store/jobs/jobs.ts';
import { findAccounts } from '../../src/store/ledger/accounts.ts';
import { placeHold } from '../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId } from '../../src/store/ledger/periods.ts';
import { ensureSystem } from '../../src/store/systems/systems.ts';
import type { LeasedSystemDeps } from '../../src/workers/jobs/system-deps.ts';
import { startWatcher } from '../../src/workers/jobs/watcher.ts';
import type { Loop } from '../../src/workers/loop.ts';
import { openTestDatabase, publicColumns, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const jobId = '7B0C3D2E-0000-4000-8000-000000000001';

const queued = (ref: string, held = false): Observation => ({ jobId, ref, kind: 'queued', held });
const running = (ref: string): Observation => ({ jobId, ref, kind: 'running', startedAt: 5000 });
const finished = (ref: string): Observation => ({
  ...{ jobId, ref, kind: 'finished', outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 },
  ...{ startedAt: 5000, endedAt: 6000, elapsedSeconds: 1 },
});

/**
 * Uses a fake engine, because these races need the engine's report, and the changes to the database during a poll, at an exact
 * moment that no real engine can be made to show.
 */
describe('watcher', () => {
  let database: TestDatabase;
  let loop: Loop | undefined;
  let reported: Observation[];
  let duringPoll: () => Promise<unknown>;
  let pollCount: number;
  let engineCalls: string[];
  let endRecord: EndRecord | null;
  let hasStartedMeanwhile: boolean;
  let measure: (jobId: string) => Promise<number>;
  let fullScanMs: number;
  let forgetError: Error | null;
  let cancelError: Error | null;
  let missing: MissingJobStatus | null;
  let nowMs: number;
  let logged: string[];
  const log = (...args: unknown[]) => void logged.push(String(args.at(-1)));

  beforeEach(async () => {
    database = await openTestDatabase(['1'], 10_000, 1000);
    await ensureSystem(database.db, 'sys', 1);
    [reported, duringPoll, pollCount, engineCalls, endRecord] = [[], async () => undefined, 0, [], null];
    hasStartedMeanwhile = false;
    measure = async () => 1;
    fullScanMs = 0;
    forgetError = null;
    cancelError = null;
    missing = null;
    nowMs = 10_000;
    logged = [];
  });
  afterEach(async () => {
    await loop?.stop();
    loop = undefined;
    await database.close();
  });

  /** Inserts a job as the dispatcher leaves it. */
  async function insertTestJob(state: JobState, ref: string | null, id = jobId): Promise<void> {
    const { db } = database;
    const project = await findProject(db, 'sys', 'proj');
    const accounts =
      project && (await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, 2)) ?? 0, '1'));
    assert.ok(project && accounts);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const job = { jobId: id, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
    await inTransaction(db, async (tx) => {
      const inserted = await insertJob(tx, job, publicColumns('QUEUED'), {});
      const note = { actor: '1', reason: 'x', at: 2 };
      await placeHold(tx, { id: inserted.id }, accounts, { timeSeconds: 3600, spaceBytes: 1 }, note);
    });
    await changeJob(state, ref, id);
  }

  /** Changes the job as another worker or another instance does. */
  const changeJob = (state: JobState, ref: string | null, id = jobId) =>
    database.db.updateTable('jobs').set({ state, engineRef: ref }).where('jobId', '=', id).execute();
  const storedState = async (id = jobId) => (await findJob(database.db, id))?.status.state;

  function startTestWatcher(): void {
    const engine: Partial<Engine> = {
      async observe() {
        const observations = reported;
        await duringPoll();
        pollCount += 1;
        return observations;
      },
      release: async (refs) => void engineCalls.push(`release ${[...refs.values()]}`),
      discard: async (refs) => void engineCalls.push(`discard ${refs}`),
      async forget(jobIds) {
        engineCalls.push(`forget ${jobIds.length}`);
        if (forgetError !== null) throw forgetError;
      },
      readEndRecords: async (jobs) =>
        new Map(endRecord === null ? [] : [...jobs.keys()].map((name) => [name, endRecord as EndRecord])),
      preventStart: async () => {
        engineCalls.push('preventStart');
        return !hasStartedMeanwhile;
      },
      inspectMissing: async (jobs) =>
        new Map(missing === null ? [] : [...jobs.keys()].map((name) => [name, missing as MissingJobStatus])),
      async cancel(id) {
        engineCalls.push(`cancel ${id}`);
        if (cancelError !== null) throw cancelError;
      },
      onChange: () => undefined,
    };
    const deps = {
      ...{
        db: database.db,
        lease: { assertValid: () => undefined, transaction: (work) => inTransaction(database.db, work) },
      },
      ...{
        engine: engine as Engine,
        system: toHpcSystems(database.config).get('sys'),
        workspaces: {
          measure: async ([id = '']) => new Map([[id, { bytes: await measure(id), entries: 1 }]]),
          pathsOf: () => ({ directory: '', stdout: '', stderr: '' }),
        } as Partial<Workspaces> as Workspaces,
      },
      ...{
        minPollMs: 1,
        maxPollMs: 1,
        fullScanMs,
        missingAlarmMs: 60_000,
        metrics: { increment: () => undefined, setGauge: () => undefined },
      },
      ...{ publish: () => undefined, now: () => nowMs, log: { info: () => undefined, warn: log, error: log } },
    } as Partial<LeasedSystemDeps> as LeasedSystemDeps;
    loop = startWatcher(deps, () => void engineCalls.push('requeued'));
  }

  /** Waits for whole polls: the current one, and another one that starts after this call. */
  async function waitForPolls(): Promise<void> {
    const before = pollCount;
    await until('more polls', () => pollCount >= before + 3 || undefined);
  }

  const exitedNormally = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 } as const;
  const killedBySignal = { outcome: 'failed', reason: 'killed by SIGTERM', exitCode: null } as const;
  for (const [condition, record, outcome] of [
    ['its end record has an exit code', exitedNormally, 'succeeded'],
    ['its end record names a signal', killedBySignal, 'cancelled_by_site'],
    ['it has no end record', null, 'cancelled_by_site'],
  ] as const) {
    test(`stores ${outcome} for a job that the engine reports as cancelled without a request if ${condition}`, async () => {
      await insertTestJob('queued', '7');
      endRecord = record && {
        ...{ ...record, wasTerminated: record.exitCode === null, writtenAt: 6000 },
        ...{ startedAt: 5000, endedAt: 6000, elapsedSeconds: 1 },
      };
      reported = [{ ...finished('7'), outcome: 'cancelled', reason: 'CANCELLED', exitCode: null } as Observation];
      startTestWatcher();
      await until('the job has ended', async () => (await storedState()) === 'ended' || undefined);
      const status = (await findJob(database.db, jobId))?.status;
      assert.equal(status?.state === 'ended' && status.outcome, outcome);
    });
  }

  describe('a job that the engine reports as cancelled on a node, and that never started', () => {
    const cancelledOnNode = {
      ...finished('7'),
      outcome: 'cancelled',
      reason: 'CANCELLED',
      exitCode: null,
    } as Observation;
    beforeEach(async () => {
      await insertTestJob('queued', '7');
      endRecord = 'never_started';
      reported = [cancelledOnNode];
    });

    test('is returned to the dispatcher', async () => {
      startTestWatcher();
      await until('the job is returned', () => engineCalls.includes('requeued') || undefined);
      assert.equal(await storedState(), 'submitting');
      await waitForPolls();
      assert.deepEqual(engineCalls, ['requeued']);
    });

    test('is returned however often servers have died while they submitted it', async () => {
      await database.db.updateTable('jobs').set({ tries: 50 }).execute();
      startTestWatcher();
      await until('the job is returned', () => engineCalls.includes('requeued') || undefined);
      assert.equal(await storedState(), 'submitting');
    });

    /** Submits the job again each time it is returned. */
    async function submitFiveTimes(): Promise<void> {
      startTestWatcher();
      for (let count = 1; count < 5; count++) {
        const isReturned = () => engineCalls.filter((call) => call === 'requeued').length === count;
        await until('the job is returned', () => isReturned() || undefined);
        await changeJob('queued', '7');
      }
    }
    async function showAsRunning(): Promise<void> {
      await database.db.updateTable('jobs').set({ state: 'running', startedAt: 1 }).execute();
      startTestWatcher();
    }

    for (const [condition, observeEnd] of [
      ['it was submitted five times', submitFiveTimes],
      ['it was shown as running', showAsRunning],
    ] as const) {
      test(`ends without a charge if ${condition}`, async () => {
        await observeEnd();
        await until('the job has ended', async () => (await storedState()) === 'ended' || undefined);
        const status = (await findJob(database.db, jobId))?.status;
        assert.ok(status?.state === 'ended');
        assert.deepEqual([status.outcome, status.startedAt], ['node_failed', null]);
        const [event] = await database.db.selectFrom('events').select('data').where('kind', '=', 'job.ended').execute();
        assert.equal(JSON.parse(event?.data ?? '{}').charged_seconds, 0);
        // A controller that forgets the end must not start the job later.
        assert.equal(
          engineCalls.find((call) => call !== 'requeued'),
          'preventStart',
        );
      });
    }

    test('does not end if it has started after its record was read', async () => {
      hasStartedMeanwhile = true;
      await submitFiveTimes();
      await waitForPolls();
      assert.equal(await storedState(), 'queued');
      assert.ok(engineCalls.includes('preventStart'));
    });
  });

  test('ends a job as lost, without a charge, that the engine has forgotten and that left no end', async () => {
    await insertTestJob('running', '7');
    missing = { record: 'not_ended', isForgotten: true };
    startTestWatcher();
    await waitForPolls();
    // Its node may still run it, until it has heard of a system that has forgotten the job.
    nowMs += 59_000;
    await waitForPolls();
    assert.equal(await storedState(), 'running');
    nowMs += 31_000;
    await until('the job has ended', async () => (await storedState()) === 'ended' || undefined);
    const status = (await findJob(database.db, jobId))?.status;
    assert.equal(status?.state === 'ended' && status.outcome, 'lost');
    const [event] = await database.db.selectFrom('events').select('data').where('kind', '=', 'job.ended').execute();
    const { charged_seconds, reason } = JSON.parse(event?.data ?? '{}');
    assert.deepEqual([charged_seconds, /^the system lost the job while it ran/.test(reason)], [0, true]);
  });

  test('waits for the record of a job that has started and that the engine reports as never started', async () => {
    await insertTestJob('queued', '7');
    endRecord = 'not_ended';
    const notStarted = { startedAt: null, elapsedSeconds: 0, endedAt: 9000 };
    reported = [{ ...finished('7'), ...notStarted, outcome: 'cancelled', reason: 'CANCELLED' } as Observation];
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual([await storedState(), engineCalls], ['queued', []]);
    endRecord = {
      ...{ outcome: 'succeeded', reason: 'exit code 0', exitCode: 0, wasTerminated: false, writtenAt: 8000 },
      ...{ startedAt: 5000, endedAt: 8000, elapsedSeconds: 3 },
    };
    await until('the job has ended', async () => (await storedState()) === 'ended' || undefined);
    const status = (await findJob(database.db, jobId))?.status;
    assert.ok(status?.state === 'ended');
    assert.deepEqual([status.outcome, status.elapsedSeconds], ['succeeded', 3]);
  });

  test('stores the end of a job while the files of another job are measured', async () => {
    const slowId = '7B0C3D2E-0000-4000-8000-000000000002';
    const { promise: measured, resolve: finishMeasuring } = Promise.withResolvers<number>();
    measure = (id) => (id === slowId ? measured : Promise.resolve(1));
    await insertTestJob('running', '6', slowId);
    await insertTestJob('running', '7');
    reported = [{ ...finished('6'), jobId: slowId }, finished('7')];
    startTestWatcher();
    await until('the other job has ended', async () => (await storedState()) === 'ended' || undefined);
    await waitForPolls();
    assert.equal(await storedState(slowId), 'running');
    finishMeasuring(1);
    await until('the slow job has ended', async () => (await storedState(slowId)) === 'ended' || undefined);
  });

  test('ignores a report without a change, and stores one with a change', async () => {
    await insertTestJob('queued', '7');
    reported = [queued('7')];
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual([await storedState(), engineCalls], ['queued', []]);
    reported = [running('7')];
    await waitForPolls();
    assert.deepEqual([await storedState(), engineCalls], ['running', []]);
    reported = [];
    await waitForPolls();
    assert.equal(await storedState(), 'running');
    reported = [finished('7')];
    await until('the end is stored', async () => (await storedState()) === 'ended' || undefined);
    await until('the engine forgets the job', () => engineCalls[0]);
    assert.equal(engineCalls[0], 'forget 1');
  });

  test('stores the changes of a job that was inserted after the last comparison with the engine', async () => {
    fullScanMs = 1e9;
    startTestWatcher();
    await waitForPolls();
    await insertTestJob('submitting', null);
    reported = [running('7')];
    await waitForPolls();
    assert.equal(await storedState(), 'submitting');
    await changeJob('queued', '7');
    await until('the job runs', async () => (await storedState()) === 'running' || undefined);
    reported = [finished('7')];
    await until('the end is stored', async () => (await storedState()) === 'ended' || undefined);
    await until('the engine forgets the job', () => engineCalls.includes('forget 1') || undefined);
  });

  test('reads the unfinished jobs only for a comparison with the engine', async () => {
    fullScanMs = 1e9;
    await insertTestJob('queued', '7');
    reported = [queued('7')];
    startTestWatcher();
    await waitForPolls();
    // Nobody but the workers changes a job like this, so that it is not noticed.
    await changeJob('queued', '8');
    await waitForPolls();
    assert.deepEqual(engineCalls, []);
  });

  test('releases held jobs and discards submissions that are not the stored one, on every poll', async () => {
    await insertTestJob('queued', '7');
    reported = [queued('7', true), queued('8', true)];
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual(engineCalls.slice(0, 4), ['release 7', 'discard 8', 'release 7', 'discard 8']);
  });

  test('discards a held submission of a job that has ended, and no held job that is not in the database', async () => {
    await insertTestJob('queued', '7');
    reported = [finished('7')];
    startTestWatcher();
    await until('the end is stored', async () => (await storedState()) === 'ended' || undefined);
    engineCalls = [];
    reported = [queued('8', true), { jobId: 'DOCTOR-1', ref: '9', kind: 'queued', held: true }];
    await waitForPolls();
    assert.ok(engineCalls.includes('discard 8'));
    assert.deepEqual(
      engineCalls.filter((call) => call !== 'discard 8' && !call.startsWith('forget')),
      [],
    );
  });

  test('stores an end although the engine cannot forget the job, and says which of the two failed', async () => {
    await insertTestJob('queued', '7');
    forgetError = new Error('the connection is lost');
    reported = [finished('7')];
    startTestWatcher();
    await until('the end is stored', async () => (await storedState()) === 'ended' || undefined);
    await until('the failure is logged', () => logged.some((text) => /not forgotten/.test(text)) || undefined);
    assert.deepEqual(
      logged.filter((text) => /end not stored/.test(text)),
      [],
    );
  });

  test('cancels a job again that its system still shows as running, if the cancellation after its stored end failed', async () => {
    await insertTestJob('running', '7');
    endRecord = {
      ...{ outcome: 'succeeded', reason: 'exit code 0', exitCode: 0, wasTerminated: false, writtenAt: 8000 },
      ...{ startedAt: 5000, endedAt: 8000, elapsedSeconds: 3 },
    };
    reported = [running('7')];
    cancelError = new Error('the system does not answer');
    startTestWatcher();
    const countCancellations = () => engineCalls.filter((call) => call === `cancel ${jobId}`).length;
    const waitForCancellation = (count: number) =>
      until(`cancellation ${count}`, () => {
        nowMs += 1000;
        return countCancellations() >= count || undefined;
      });
    await waitForCancellation(1);
    assert.equal(await storedState(), 'ended');
    cancelError = null;
    await waitForCancellation(2);
  });

  test('ignores a job whose engine id the dispatcher has not stored yet, even if it has ended', async () => {
    await insertTestJob('submitting', null);
    reported = [finished('7')];
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual([await storedState(), engineCalls], ['submitting', []]);
    await changeJob('queued', '7');
    await until('the end is stored', async () => (await storedState()) === 'ended' || undefined);
  });

  test('does not let the engine forget a job that was inserted during the poll', async () => {
    reported = [finished('7')];
    // The job is not stored when the poll starts. When it ends, the dispatcher is still submitting the job.
    duringPoll = async () => {
      duringPoll = async () => undefined;
      await insertTestJob('submitting', null);
    };
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual([await storedState(), engineCalls], ['submitting', []]);
  });

  test('does not discard a submission whose engine id was stored during the poll', async () => {
    await insertTestJob('submitting', null);
    reported = [queued('7', true)];
    duringPoll = () => changeJob('queued', '7');
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual(new Set(engineCalls), new Set(['release 7']));
  });

  test('notices database changes between two polls while the engine reports the same', async () => {
    await insertTestJob('running', '7');
    reported = [running('7')];
    startTestWatcher();
    await waitForPolls();
    assert.deepEqual(engineCalls, []);
    // Another instance returned the job to the dispatcher, and it was submitted again.
    await changeJob('queued', '9');
    await until('the old submission is discarded', () => engineCalls.includes('discard 7') || undefined);
    reported = [running('9')];
    await until('the new submission runs', async () => (await storedState()) === 'running' || undefined);
    // The end is already stored when the engine reports it: the engine may forget the job.
    await changeJob('ended', '9');
    engineCalls = [];
    reported = [finished('9')];
    await until('the engine forgets the job', () => engineCalls.includes('forget 1') || undefined);
  });
});
