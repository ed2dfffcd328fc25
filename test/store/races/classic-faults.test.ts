import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type AccountingFixture, defaultProject, defaultProjectPath } from '../../support/accounting-fixture.ts';
import type { Job } from '../../support/api.ts';
import { jobPath, releaseJob, requestCancel, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertQuotaExceeded,
  getStatement,
  listJobMovements,
  type Quote,
  runJob,
  submitJob,
  topUp,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';
import { granted, openFaultFixture } from './classic-faults.ts';

// Known accounting faults of other front ends of batch systems, each with its own test through real HTTP.

let fixture: AccountingFixture;

before(async () => {
  fixture = await openFaultFixture();
});
after(() => fixture.dispose());

describe('the eight classic faults, 1 to 5: amounts', () => {
  describe('1. a quota of exactly zero refilling itself', () => {
    const getLeft = async (user: string) => {
      const { time_left, space_left } = await (await fixture.user(user)).quota(
        defaultProject.hpc,
        defaultProject.project,
      );
      return { time_left, space_left };
    };
    const nothing = { time_left: 0, space_left: 0 };

    test('a quota that was withdrawn completely stays zero after any number of requests', async () => {
      const me = await fixture.user('301401');
      await withdrawDownTo(fixture.admin, '301401', { time: 0, space: 0 });
      for (let i = 0; i < 20; i++) assert.deepEqual(await getLeft('301401'), nothing);
      assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true', runtime: '0.0001' }), {
        needed: 1,
        available: 0,
        account: 'cap',
      });
      assert.deepEqual(await getLeft('301401'), nothing);
    });

    test('it is still zero after a new token, a restart and a change of the configuration', async () => {
      const { code, stderr } = await fixture.bursar('token', 'create', '--user', '301401');
      assert.equal(code, 0, stderr);
      await fixture.restart('SIGTERM', ({ systems }) => {
        for (const project of systems.hpc_one?.projects ?? []) project.grant.spaceKb += 1;
      });
      assert.deepEqual(await getLeft('301401'), nothing);
      const { movements } = (await getStatement(await fixture.user('301401'))).time;
      assert.deepEqual(
        movements.map(({ kind, balance }) => [kind, balance]),
        [
          ['grant', granted],
          ['withdraw', 0],
        ],
      );
    });

    test('a quota that was used completely stays zero', async () => {
      const me = await fixture.user('301402');
      await withdrawDownTo(fixture.admin, '301402', { time: 1 });
      // A job is charged at least one second.
      await runJob(me, { command: 'true', runtime: 1 / 3600 });
      for (let i = 0; i < 5; i++) assert.equal((await getLeft('301402')).time_left, 0);
      assertQuotaExceeded(await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true', runtime: 1 / 3600 }), {
        available: 0,
      });
    });

    test('members of a project without a grant have a quota of zero', async () => {
      const me = await fixture.user('301403');
      for (let i = 0; i < 3; i++) {
        const { time_left, space_left } = await me.quota('hpc_two', 'proj_hpc_two_02');
        assert.deepEqual({ time_left, space_left }, nothing);
      }
    });
  });

  describe('2. refund of used instead of unused time', () => {
    test('the end of a job releases the unused part of its hold', async () => {
      const me = await fixture.user('301410');
      const job = await submitJob(me, { command: waitForGoScript, node_number: 2, core_number: 4, runtime: 0.5 });
      const held = 2 * 4 * 1800;
      assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted - held);
      await waitForStage(me, job, 'RUNNING');
      releaseJob(fixture.server, job);
      await me.waitUntilFinished(job);

      const [reserved, released, charged, ...more] = await listJobMovements(me, job);
      assert.deepEqual(more, []);
      assert.deepEqual([reserved?.kind, reserved?.change, reserved?.used], ['reserve', -held, 0]);
      const used = charged?.used ?? Number.NaN;
      // The job ran for about a second of half an hour: mixing up used and unused time would leave almost nothing.
      assert.ok(used > 0 && used < held / 2, String(used));
      assert.deepEqual([released?.kind, released?.change, released?.used], ['release', held, 0]);
      assert.deepEqual([charged?.kind, charged?.change], ['charge', -used]);
      assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted - used);
    });
  });

  describe('3. hours mixed with seconds', () => {
    for (const [runtime, seconds] of [
      [1, 3600],
      [0.5, 1800],
      [0.1, 360],
      [0.001, 4],
      [1 / 3600, 1],
      [0.0001, 1],
      [40, 144_000],
    ] as const) {
      test(`a runtime of ${runtime} hours is held as ${seconds} seconds`, async () => {
        const me = await fixture.user('301411');
        const { body: quote } = await me.send('POST', '/quotes/hpc_one/', {
          payload: JSON.stringify({ command: 'true', runtime }),
        });
        assert.equal((quote as Quote).cost, seconds);
        const before = (await me.quota(defaultProject.hpc, defaultProject.project)).time_left;
        const job = await submitJob(me, { command: waitForGoScript, runtime });
        const [reserved] = await listJobMovements(me, job);
        assert.equal(reserved?.change, -seconds);
        assert.equal(reserved?.balance, before - seconds);
        await requestCancel(me, job);
        await me.waitUntilFinished(job);
      });
    }

    test('administrators grant time in seconds and space in KB', async () => {
      const me = await fixture.user('301412');
      const before = await me.quota(defaultProject.hpc, defaultProject.project);
      await topUp(fixture.admin, '301412', 3600);
      await topUp(fixture.admin, '301412', 7, { resource: 'space' });
      const after = await me.quota(defaultProject.hpc, defaultProject.project);
      assert.equal(after.time_left - before.time_left, 3600);
      assert.equal(after.space_left - before.space_left, 7);
    });
  });

  describe('4. double settlement on repeated reads', () => {
    test('a job is settled once, however often and by whomever it is read', async () => {
      const me = await fixture.user('301420');
      const { admin } = fixture;
      const job = await submitJob(me, { command: 'true', core_number: 3 });
      // Reads the job all the time while it runs, ends and is settled.
      const readers = Array.from({ length: 20 }, async () => {
        for (;;) {
          const { body } = await me.get<Job>(jobPath(job));
          await me.get('/jobs/');
          await me.get('/quotas/');
          if (body.terminal_stage) return;
        }
      });
      await Promise.all(readers);
      const { text } = await me.get(`/quotas/${defaultProjectPath}/`);
      const paths = [
        jobPath(job),
        '/jobs/',
        `/jobs/${defaultProjectPath}/`,
        '/quotas/',
        `/quotas/${defaultProjectPath}/statement/`,
        '/usage/',
      ];
      const adminPaths = [
        '/admin/jobs/',
        '/admin/jobs/?user_id=301420',
        `/admin/quotas/301420/${defaultProjectPath}/`,
        '/admin/usage/',
      ];
      for (let i = 0; i < 5; i++) {
        await Promise.all([...paths.map((path) => me.get(path)), ...adminPaths.map((path) => admin.get(path))]);
      }
      assert.equal((await me.get(`/quotas/${defaultProjectPath}/`)).text, text);
      assert.deepEqual(
        (await listJobMovements(me, job)).map(({ kind }) => kind),
        ['reserve', 'release', 'charge'],
      );
    });

    test('a restart, which reads all jobs again, does not settle it again', async () => {
      const before = (await (await fixture.user('301420')).get('/quotas/')).text;
      await fixture.restart('SIGTERM');
      assert.equal((await (await fixture.user('301420')).get('/quotas/')).text, before);
      const rows = await fixture.query<{ n: number }>(
        'select count(*) as n from resolutions join holds on holds.id = hold_id group by job having count(*) > 1',
      );
      assert.deepEqual(rows, []);
    });
  });

  describe('5. cost that ignores nodes and cores', () => {
    for (const [nodes, cores] of [
      [1, 1],
      [1, 3],
      [3, 1],
      [2, 5],
      [7, 4],
    ] as const) {
      test(`${nodes} nodes of ${cores} cores are held and charged as ${nodes * cores} seconds per second`, async () => {
        const me = await fixture.user('301430');
        const job = await runJob(me, { command: 'true', node_number: nodes, core_number: cores, runtime: '0.5' });
        const [reserved, , charged] = await listJobMovements(me, job);
        assert.equal(reserved?.change, -nodes * cores * 1800);
        const used = charged?.used ?? Number.NaN;
        assert.ok(used >= nodes * cores && used % (nodes * cores) === 0, String(used));
      });
    }

    test('a system that charges for nodes does not count cores', async () => {
      const me = await fixture.user('301431');
      const zip = await createZip({ 'main.sh': 'true\n' });
      const payload = { tool: 'BASH', node_number: 3, core_number: 16, runtime: '0.25' };
      const job = await me.waitUntilFinished((await me.submit('/jobs/hpc_two/', payload, zip)).body);
      const [reserved, , charged] = await listJobMovements(me, job, 'time', 'hpc_two/proj_hpc_two_01');
      assert.equal(reserved?.change, -3 * 900);
      const used = charged?.used ?? Number.NaN;
      assert.ok(used >= 3 && used % 3 === 0, String(used));
    });
  });

  test('the ledger balances after all tests', async () => {
    await assertLedgerBalances(fixture.server);
  });
});
