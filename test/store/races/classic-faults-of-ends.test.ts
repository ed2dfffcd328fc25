import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type AccountingFixture,
  adminId,
  defaultProject,
  defaultProjectPath,
} from '../../support/accounting-fixture.ts';
import {
  cancelJob,
  jobPath,
  requestCancel,
  unrunnableScript,
  waitForGoScript,
  waitForStage,
} from '../../support/jobs.ts';
import {
  assertLedgerBalances,
  assertStatementAddsUp,
  getStatement,
  listJobMovements,
  markBegunScript,
  postCreated,
  runJob,
  submitJob,
  topUp,
  waitUntilBegun,
  withdraw,
  withdrawDownTo,
} from '../../support/ledger.ts';
import { listFilesUnder } from '../../support/problems.ts';
import { bearerHeader, formatRequestHead, openRawConnection } from '../../support/raw-http.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';
import { granted, openFaultFixture } from './classic-faults.ts';

// Known accounting faults of other front ends of batch systems, each with its own test through real HTTP.

let fixture: AccountingFixture;

before(async () => {
  fixture = await openFaultFixture();
});
after(() => fixture.dispose());

describe('the eight classic faults, 6 to 8: ends, rejections and history', () => {
  describe('6. cancel that refunds twice', () => {
    test('a running job that is cancelled by concurrent and repeated requests is settled once', async () => {
      const me = await fixture.user('301440');
      const job = await submitJob(me, { command: markBegunScript, core_number: 2 });
      await waitUntilBegun(fixture, job);
      await waitForStage(me, job, 'RUNNING');
      const responses = await Promise.all(Array.from({ length: 10 }, () => requestCancel(me, job)));
      for (const { status, text } of responses) assert.ok(status === 200 || status === 202, text);
      await me.waitUntilFinished(job);
      for (let i = 0; i < 3; i++) assert.equal((await requestCancel(me, job)).status, 200);

      const [, , charged, ...more] = await listJobMovements(me, job);
      assert.deepEqual(more, []);
      const used = charged?.used ?? Number.NaN;
      assert.ok(used > 0 && used < 7200, String(used));
      assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted - used);
      await assertStatementAddsUp(me);
    });

    test('a job that is cancelled before it starts releases its whole hold once', async () => {
      const me = await fixture.user('301441');
      const other = await fixture.user('301442');
      const blockingJob = await submitJob(other, { command: waitForGoScript, core_number: 4 });
      await waitForStage(other, blockingJob, 'RUNNING');
      const job = await submitJob(me, { command: 'true', core_number: 4 });
      await Promise.all(Array.from({ length: 5 }, () => requestCancel(me, job)));
      assert.equal((await me.waitUntilFinished(job)).failed, false);
      await requestCancel(me, job);
      assert.deepEqual(
        (await listJobMovements(me, job)).map(({ kind, change }) => [kind, change]),
        [
          ['reserve', -4 * 3600],
          ['release', 4 * 3600],
        ],
      );
      assert.equal((await me.quota(defaultProject.hpc, defaultProject.project)).time_left, granted);
      await cancelJob(other, blockingJob);
    });
  });

  describe('7. a failed submission that keeps its hold', () => {
    test('a submission that is rejected for its headers, zip or size leaves no movement', async () => {
      const me = await fixture.user('301450');
      await withdrawDownTo(fixture.admin, '301450', { space: 4 });
      const before = (await me.get('/quotas/')).text;
      const rejections = [
        await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true', runtime: 'long' }),
        await me.submit(`/jobs/${defaultProjectPath}/`, { command: 'true' }, Buffer.from('this is no zip')),
        await me.submit(
          `/jobs/${defaultProjectPath}/`,
          { command: 'true' },
          await createZip({ 'big.bin': 'x'.repeat(4001) }),
        ),
        await me.submit(`/jobs/${defaultProjectPath}/`, {
          command: 'true',
          node_number: 64,
          core_number: 128,
          runtime: 48,
        }),
        await me.send('POST', `/jobs/${defaultProjectPath}/`, { payload: '{"command":"true"}' }),
      ];
      assert.deepEqual(
        rejections.map(({ status, body }) => [status, (body as unknown as { code: string }).code]),
        [
          [400, 'invalid_payload'],
          [400, 'invalid_zip'],
          [403, 'quota_exceeded'],
          [403, 'quota_exceeded'],
          [400, 'invalid_content_disposition'],
        ],
      );
      assert.equal((await me.get('/quotas/')).text, before);
      const { time, space } = await getStatement(me);
      assert.deepEqual([time.movements.length, space.movements.length], [1, 2], 'only the grant and the withdrawal');
      assert.deepEqual((await me.get('/jobs/')).body, []);
    });

    test('an aborted upload holds nothing, before and after the abort', async () => {
      const me = await fixture.user('301451');
      const { text } = await me.get('/quotas/');
      const connection = await openRawConnection(fixture.server.url);
      const headers = [
        bearerHeader(await fixture.token('301451')),
        ['content-disposition', 'attachment; filename=job.zip'],
        ['payload', '{"command":"true"}'],
        ['content-length', '200000'],
      ] as const;
      // Larger than the memory buffer, so that the upload is written to the spool.
      connection.write(
        formatRequestHead({ method: 'POST', path: `/jobs/${defaultProjectPath}/`, headers }),
        'PK'.repeat(50_000),
      );
      await until('the upload has started', () =>
        listFilesUnder(fixture.server, 'spool').length > 0 ? true : undefined,
      );
      assert.equal((await me.get('/quotas/')).text, text, 'nothing is held during the upload');
      connection.destroy();
      await until('the partial upload is deleted', () =>
        listFilesUnder(fixture.server, 'spool').length === 0 ? true : undefined,
      );
      assert.equal((await me.get('/quotas/')).text, text, 'nothing is held after the abort');
      assert.deepEqual((await me.get('/jobs/')).body, []);
    });

    test('a job that the system rejects after its acceptance releases its whole hold', async () => {
      const me = await fixture.user('301452');
      const { text } = await me.get(`/quotas/${defaultProjectPath}/`);
      const { command, zip } = unrunnableScript;
      const job = await runJob(me, { command, core_number: 2 }, zip);
      assert.deepEqual([job.stage, job.failed], ['FAILED', true]);
      assert.deepEqual(
        (await listJobMovements(me, job)).map(({ kind, change }) => [kind, change]),
        [
          ['reserve', -7200],
          ['release', 7200],
        ],
      );
      // Its uploaded files take space until they are deleted.
      await me.send('DELETE', jobPath(job));
      assert.equal((await me.get(`/quotas/${defaultProjectPath}/`)).text, text);
    });
  });

  describe('8. history that cannot explain a balance', () => {
    test('after every kind of movement, the statement adds up to the remaining quota', async () => {
      const me = await fixture.user('301460');
      await fixture.user('301461');
      const { admin } = fixture;
      const zip = await createZip({ 'run.sh': '#!/bin/sh\nhead -c 1234 /dev/zero > out\n', 'in.bin': 'x'.repeat(777) });
      const done = await runJob(me, { command: 'sbatch run.sh', core_number: 3 }, zip);
      await runJob(me, { command: 'exit 3' });
      await runJob(me, { command: unrunnableScript.command }, unrunnableScript.zip);
      const cancelled = await submitJob(me, { command: markBegunScript });
      await waitUntilBegun(fixture, cancelled);
      await cancelJob(me, cancelled);
      await topUp(admin, '301460', 500);
      await topUp(admin, '301460', 50, { resource: 'space' });
      await withdraw(admin, '301460', 200, { source: 'pool' });
      await withdraw(admin, '301460', 20, { resource: 'space', source: 'pool' });
      const reason = 'they agreed on it';
      const transfer = { from: '301460', to: '301461', resource: 'time', amount: 1000, reason };
      await postCreated(admin, `/admin/grants/${defaultProjectPath}/transfers/`, transfer);
      await postCreated(admin, `/admin/grants/${defaultProjectPath}/refunds/`, {
        job_id: done.job_id,
        amount: 2,
        reason,
      });
      await me.send('DELETE', jobPath(done));
      const running = await submitJob(me, { command: waitForGoScript, runtime: 2 });

      const { time, space } = await assertStatementAddsUp(me);
      assert.equal(time.opening_balance, 0);
      const kinds = (movements: { kind: string }[]) => [...new Set(movements.map(({ kind }) => kind))].sort();
      assert.deepEqual(kinds(time.movements), [
        'charge',
        'grant',
        'refund',
        'release',
        'reserve',
        'top_up',
        'transfer',
        'withdraw',
      ]);
      for (const kind of ['charge', 'free', 'grant', 'reserve', 'top_up', 'withdraw']) {
        assert.ok(kinds(space.movements).includes(kind), kind);
      }
      for (const { kind, actor, job_id } of time.movements) {
        const belongsToJob = ['reserve', 'charge', 'release', 'refund'].includes(kind);
        assert.equal(job_id !== null, belongsToJob, kind);
        if (['top_up', 'withdraw', 'transfer', 'refund'].includes(kind)) assert.equal(actor, adminId, kind);
        if (kind === 'reserve') assert.equal(actor, '301460');
      }
      await assertStatementAddsUp(await fixture.user('301461'));
      await cancelJob(me, running);
      await assertStatementAddsUp(me);
    });

    test('the statement of a new member has one movement, the grant', async () => {
      const { time, space } = await assertStatementAddsUp(await fixture.user('301462'));
      assert.deepEqual([time.closing_balance, space.closing_balance], [granted, 100_000]);
      assert.deepEqual([time.movements.length, space.movements.length], [1, 1]);
    });

    test('the database rejects updates and deletes of ledger entries', async () => {
      for (const table of ['entries', 'resolutions']) {
        await assert.rejects(fixture.tamper(`update ${table} set at = at + 1`), /append-only/);
        await assert.rejects(fixture.tamper(`delete from ${table}`), /append-only/);
      }
    });
  });

  test('the ledger balances after all tests', async () => {
    await assertLedgerBalances(fixture.server);
  });
});
