import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { remainingQuota } from '../../../src/domain/accounting/charge.ts';
import { BursarError } from '../../../src/domain/errors.ts';
import { changeGrant } from '../../../src/services/accounting/grants.ts';
import { openGrantPeriod } from '../../../src/services/accounting/periods.ts';
import type { GrantChange } from '../../../src/services/accounting/quota-events.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject, type ProjectRecord } from '../../../src/store/identity/projects.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { findAccounts } from '../../../src/store/ledger/accounts.ts';
import { expireEndedPeriods } from '../../../src/store/ledger/grants.ts';
import { freeSpace, placeHold, settle } from '../../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId } from '../../../src/store/ledger/periods.ts';
import { findQuotas } from '../../../src/store/ledger/quotas.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { isLongRun } from '../../support/long-run.ts';
import { openTestDatabase, publicColumns } from '../../support/test-database.ts';

const users = ['1', '2', '3'] as const;
const dayMs = 86_400_000;
/** Simulates a crash inside a transaction. */
class Crash extends Error {}

interface World {
  db: Db;
  project: ProjectRecord;
  now: number;
  jobs: string[];
}

type Act = (world: World) => Promise<unknown>;

let jobNumber = 0;

/** Submits as the service does: job and hold in one transaction, or neither. */
function submit(user: string, timeSeconds: number, spaceBytes: number, crash: boolean): Act {
  return async (world) => {
    const { db, project, now } = world;
    const accounts = await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, now)) ?? -1, user);
    if (accounts === undefined) return;
    const jobId = `JOB-${jobNumber++}`;
    const command = { kind: 'line', line: 'true' } as const;
    const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, command, tool: null, entry: null };
    const job = { jobId, owner: user, project, request, units: 1, input: null, acceptedAt: now };
    await inTransaction(db, async (tx) => {
      const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
      const note = { actor: user, reason: 'test', at: now };
      const { shortfall } = await placeHold(tx, { id }, accounts, { timeSeconds, spaceBytes }, note);
      if (shortfall !== null || crash) throw new Crash();
    });
    world.jobs.push(jobId);
  };
}

/** Ends a job with any outcome, possibly with more use than it held, possibly twice concurrently. */
function end(pick: number, timeSeconds: number, spaceBytes: number, voided: boolean, crash: boolean): Act {
  return async ({ db, jobs, now }) => {
    const job = await findJob(db, jobs[pick % Math.max(1, jobs.length)] ?? '');
    if (job === undefined || job.status.state !== 'accepted') return;
    const outcome = voided ? 'lost' : 'failed';
    const end = { outcome, reason: '', exitCode: null, startedAt: now, endedAt: now, elapsedSeconds: 1 } as const;
    await inTransaction(db, async (tx) => {
      await updateStatus(tx, job, { state: 'ended', ...end }, publicColumns('FAILED')());
      const used = { kind: voided ? 'voided' : 'settled', timeSeconds: voided ? 0 : timeSeconds, spaceBytes } as const;
      await settle(tx, job, { ...used, rule: outcome }, { actor: 'bursar', at: now });
      if (crash) throw new Crash();
    });
  };
}

function remove(pick: number): Act {
  return async ({ db, jobs, now }) => {
    const job = await findJob(db, jobs[pick % Math.max(1, jobs.length)] ?? '');
    if (job?.status.state !== 'ended') return;
    const next = { ...job.status, state: 'deleted' } as const;
    await inTransaction(db, async (tx) => {
      if (!(await updateStatus(tx, job, next, publicColumns('DELETED')()))) return;
      await freeSpace(tx, job, { actor: job.owner, reason: 'deleted', at: now });
    });
  };
}

const applyGrant =
  (act: (world: World) => GrantChange): Act =>
  async (world) =>
    await inTransaction(world.db, (tx) => changeGrant(tx, world.project, act(world), 'admin', world.now));

const amount = fc.integer({ min: 1, max: 600 });
const user = fc.constantFrom(...users);
const resource = fc.constantFrom('time' as const, 'space' as const);
const size = (kind: 'time' | 'space', n: number) => (kind === 'time' ? n : n * 100);

const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(user, fc.nat(400), fc.nat(60_000), fc.boolean()).map((a) => submit(...a)) },
  {
    weight: 5,
    arbitrary: fc.tuple(fc.nat(1000), fc.nat(700), fc.nat(90_000), fc.boolean(), fc.boolean()).map((a) => end(...a)),
  },
  { weight: 2, arbitrary: fc.nat(1000).map(remove) },
  {
    weight: 3,
    arbitrary: fc
      .record({
        kind: fc.constantFrom('top_up', 'withdraw'),
        source: fc.constantFrom('new', 'pool'),
        user,
        resource,
        amount,
      })
      .map(({ kind, source, amount: n, ...rest }) =>
        applyGrant(() => ({ kind, source, ...rest, amount: size(rest.resource, n), reason: 'test' })),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ kind: fc.constantFrom('top_up', 'withdraw'), resource, amount })
      .map(({ kind, resource: what, amount: n }) =>
        applyGrant(() => ({ kind, source: 'new', user: null, resource: what, amount: size(what, n), reason: 'test' })),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ from: user, to: user, resource, amount })
      .map(({ from, to, resource: what, amount: n }) =>
        applyGrant(() => ({ kind: 'transfer', from, to, resource: what, amount: size(what, n), reason: 'test' })),
      ),
  },
  {
    weight: 2,
    arbitrary: fc.record({ pick: fc.nat(1000), amount }).map(({ pick, amount: n }) =>
      applyGrant(({ jobs }) => {
        const jobId = jobs[pick % Math.max(1, jobs.length)] ?? '';
        return { kind: 'refund', job_id: jobId, amount: n, reason: 'test' };
      }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record({ days: fc.integer({ min: 1, max: 3 }), seconds: fc.nat(900) }).map(
      ({ days, seconds }): Act =>
        async ({ db, project, now }) =>
          await inTransaction(db, (tx) => {
            const period = { startsAt: now, endsAt: now + days * dayMs, memberSeconds: seconds, reserveSeconds: 50 };
            return openGrantPeriod(tx, project, { ...period, reason: 'test' }, 'admin', now);
          }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constant<Act>(async (world) => {
      world.now += dayMs;
      await inTransaction(world.db, (tx) => expireEndedPeriods(tx, world.now));
    }),
  },
);

async function check({ db, now }: World): Promise<void> {
  assert.deepEqual((await verifyLedger(db)).problems, []);
  const quotas = await findQuotas(db, {}, now);
  const [first] = quotas;
  if (first === undefined) return;
  for (const name of ['time', 'space'] as const) {
    const visible = quotas.reduce((sum, quota) => sum + remainingQuota(quota[name].pool, quota[name].cap), 0);
    assert.ok(visible <= first[name].pool.granted, `users see ${visible} of ${name}, more than the pool`);
  }
}

/** Ignores rejected acts and simulated crashes, which are rolled back. Every other error fails the test. */
async function attempt(act: Act, world: World): Promise<void> {
  try {
    await act(world);
  } catch (error) {
    if (!(error instanceof BursarError) && !(error instanceof Crash)) throw error;
  }
}

describe('the ledger under random load', () => {
  const runRounds = async (rounds: Act[][]) => {
    const database = await openTestDatabase([...users], 1000, 100);
    try {
      const project = await findProject(database.db, 'sys', 'proj');
      assert.ok(project);
      const world: World = { db: database.db, project, now: 10, jobs: [] };
      for (const round of rounds) {
        await Promise.all(round.map((step) => attempt(step, world)));
        await check(world);
      }
    } finally {
      await database.close();
    }
  };

  test('balances after each step of any sequence of submissions, ends, crashes, deletions and grants', async () => {
    const sequence = fc.array(act, { minLength: 5, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(sequence, async (acts) => runRounds(acts.map((step) => [step]))),
      { numRuns: isLongRun ? 40 : 15 },
    );
  });

  test('balances after concurrent submissions, ends, crashes, deletions and grants', async () => {
    const rounds = fc.array(fc.array(act, { minLength: 5, maxLength: 25 }), { minLength: 1, maxLength: 4 });
    // Concurrent acts seldom fail twice in the same way, so a failure is not reduced to a smaller one.
    await fc.assert(fc.asyncProperty(rounds, runRounds), { numRuns: isLongRun ? 20 : 8, endOnFailure: true });
  });
});
