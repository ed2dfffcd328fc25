import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import type { JobEnd, JobState } from '../../src/domain/jobs/job.ts';
import type { Observation } from '../../src/domain/jobs/transition.ts';
import type { Engine } from '../../src/engines/engine.ts';
import type { Workspaces } from '../../src/files/workspaces/workspaces.ts';
import { inTransaction } from '../../src/store/database/transaction.ts';
import { findProject } from '../../src/store/identity/projects.ts';
import { findJob, insertJob } from '../../src/store/jobs/jobs.ts';
import { findAccounts } from '../../src/store/ledger/accounts.ts';
import { reserve } from '../../src/store/ledger/ledger.ts';
import { currentPeriod } from '../../src/store/ledger/periods.ts';
import { openSystem } from '../../src/store/systems/systems.ts';
import type { Loop } from '../../src/workers/loop.ts';
import type { LeasedSystemDeps } from '../../src/workers/system-deps.ts';
import { startWatcher } from '../../src/workers/watcher.ts';
import { openTestDatabase, shownAs, type TestDatabase } from '../support/database-settings.ts';
import { until } from '../support/until.ts';

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const jobId = '7B0C3D2E-0000-4000-8000-000000000001';

const queued = (ref: string, held = false): Observation => ({ jobId, ref, kind: 'queued', held });
const running = (ref: string): Observation => ({ jobId, ref, kind: 'running', startedAt: 5000 });
const finished = (ref: string): Observation => ({
  ...{ jobId, ref, kind: 'finished', outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 },
  ...{ startedAt: 5000, endedAt: 6000, elapsedSeconds: 1 },
});

/**
 * What the engine says is written out here, and so is what happens to the books while it is asked: no real one can be made
 * to do that at a given moment.
 */
describe('the watcher', () => {
  let books: TestDatabase;
  let loop: Loop | undefined;
  let says: Observation[];
  let whileAsked: () => Promise<unknown>;
  let looks: number;
  let done: string[];
  /** What the job left itself. */
  let left: JobEnd | null;

  beforeEach(async () => {
    books = await openTestDatabase(['1'], 10_000, 1000);
    await openSystem(books.db, 'sys', 1);
    [says, whileAsked, looks, done, left] = [[], async () => undefined, 0, [], null];
  });
  afterEach(async () => {
    await loop?.stop();
    loop = undefined;
    await books.close();
  });

  /** A job as the dispatcher leaves it. */
  async function store(state: JobState, ref: string | null): Promise<void> {
    const { db } = books;
    const project = await findProject(db, 'sys', 'proj');
    const accounts =
      project && (await findAccounts(db, project.id, (await currentPeriod(db, project.id, 2)) ?? 0, '1'));
    assert.ok(project && accounts);
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
    const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
    await inTransaction(db, async (tx) => {
      const { id } = await insertJob(tx, job, shownAs('QUEUED'), {});
      const note = { actor: '1', reason: 'x', at: 2 };
      await reserve(tx, { id, attempt: 1 }, accounts, { timeSeconds: 3600, spaceBytes: 1 }, note);
    });
    await change(state, ref);
  }

  /** As another loop or another instance does. */
  const change = (state: JobState, ref: string | null) =>
    books.db.updateTable('jobs').set({ state, engine_ref: ref }).where('job_id', '=', jobId).execute();
  const stateInBooks = async () => (await findJob(books.db, jobId))?.status.state;

  function watch(): void {
    const engine: Partial<Engine> = {
      async observe() {
        const told = says;
        await whileAsked();
        looks += 1;
        return told;
      },
      release: async (refs) => void done.push(`release ${[...refs.values()]}`),
      discard: async (refs) => void done.push(`discard ${refs}`),
      forget: async (jobIds) => void done.push(`forget ${jobIds.length}`),
      inspectMissing: async (missing) =>
        new Map(left === null ? [] : [...missing.keys()].map((name) => [name, left as JobEnd])),
      onChange: () => undefined,
    };
    const worker = {
      ...{
        db: books.db,
        lease: { assertValid: () => undefined, transaction: (work) => inTransaction(books.db, work) },
      },
      ...{
        engine: engine as Engine,
        system: toHpcSystems(books.config).get('sys'),
        workspaces: {
          measureBytes: async () => 1,
          pathsOf: () => ({ directory: '', stdout: '', stderr: '' }),
        } as Partial<Workspaces> as Workspaces,
      },
      ...{
        minPollMs: 1,
        maxPollMs: 1,
        missingAlarmMs: 1e9,
        metrics: { increment: () => undefined, setGauge: () => undefined },
      },
      ...{ publish: () => undefined, now: () => 10_000, log: silent },
    } as Partial<LeasedSystemDeps> as LeasedSystemDeps;
    loop = startWatcher(worker, () => undefined);
  }

  /** Lets whole looks go by: the one that is under way, and another one. */
  async function afterLooks(): Promise<void> {
    const before = looks;
    await until('more looks', () => looks >= before + 3 || undefined);
  }

  const byItself = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0 } as const;
  const bySignal = { outcome: 'failed', reason: 'killed by SIGTERM', exitCode: null } as const;
  for (const [what, own, outcome] of [
    ['ended by itself: so it did', byItself, 'succeeded'],
    ['was killed: so it was', bySignal, 'cancelled_by_site'],
    ['left nothing: so it was', null, 'cancelled_by_site'],
  ] as const) {
    test(`is told that a job was cancelled, which nobody asked for, and which ${what}`, async () => {
      await store('queued', '7');
      left = own && { ...own, startedAt: 5000, endedAt: 6000, elapsedSeconds: 1 };
      says = [{ ...finished('7'), outcome: 'cancelled', reason: 'CANCELLED', exitCode: null } as Observation];
      watch();
      await until('it has ended', async () => (await stateInBooks()) === 'ended' || undefined);
      const status = (await findJob(books.db, jobId))?.status;
      assert.equal(status?.state === 'ended' && status.outcome, outcome);
    });
  }

  test('does nothing about what the books know, and follows what is news', async () => {
    await store('queued', '7');
    says = [queued('7')];
    watch();
    await afterLooks();
    assert.deepEqual([await stateInBooks(), done], ['queued', []]);
    says = [running('7')];
    await afterLooks();
    assert.deepEqual([await stateInBooks(), done], ['running', []]);
    says = [];
    await afterLooks();
    assert.equal(await stateInBooks(), 'running');
    says = [finished('7')];
    await until('the end is stored', async () => (await stateInBooks()) === 'ended' || undefined);
    await until('the engine may forget it', () => done[0]);
    assert.equal(done[0], 'forget 1');
  });

  test('releases what is held, look after look, and discards what is not the submission in the books', async () => {
    await store('queued', '7');
    says = [queued('7', true), queued('8', true)];
    watch();
    await afterLooks();
    assert.deepEqual(done.slice(0, 4), ['release 7', 'discard 8', 'release 7', 'discard 8']);
  });

  test('leaves a job alone that the dispatcher has not stored, even its end', async () => {
    await store('submitting', null);
    says = [finished('7')];
    watch();
    await afterLooks();
    assert.deepEqual([await stateInBooks(), done], ['submitting', []]);
    await change('queued', '7');
    await until('the end is stored', async () => (await stateInBooks()) === 'ended' || undefined);
  });

  test('goes by the books as they are after the look: the end of a job that was stored meanwhile is not forgotten', async () => {
    says = [finished('7')];
    // There was no such job when the look began; when it ends, the dispatcher is still at it.
    whileAsked = async () => {
      whileAsked = async () => undefined;
      await store('submitting', null);
    };
    watch();
    await afterLooks();
    assert.deepEqual([await stateInBooks(), done], ['submitting', []]);
  });

  test('does not take for a stray what was stored during the look', async () => {
    await store('submitting', null);
    says = [queued('7', true)];
    whileAsked = () => change('queued', '7');
    watch();
    await afterLooks();
    assert.deepEqual(new Set(done), new Set(['release 7']));
  });

  test('sees what changes in the books between two looks, while the engine says the same', async () => {
    await store('running', '7');
    says = [running('7')];
    watch();
    await afterLooks();
    assert.deepEqual(done, []);
    // Another holder gave it back, and it was submitted anew.
    await change('queued', '9');
    await until('the old one is discarded', () => done.includes('discard 7') || undefined);
    says = [running('9')];
    await until('the new one runs', async () => (await stateInBooks()) === 'running' || undefined);
    // It has ended there; here the end is told again, and the engine may forget it.
    await change('ended', '9');
    done = [];
    says = [finished('9')];
    await until('it may be forgotten', () => done.includes('forget 1') || undefined);
  });
});
