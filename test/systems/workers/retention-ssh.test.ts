import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { BursarError } from '../../../src/domain/errors.ts';
import { createSpool } from '../../../src/files/spool/spool.ts';
import { createFileRemover } from '../../../src/files/workspaces/file-remover.ts';
import { createRemoteWorkspaces } from '../../../src/files/workspaces/remote/remote-workspaces.ts';
import { deleteFiles } from '../../../src/services/jobs/delete-job.ts';
import { createSshShell } from '../../../src/shell/ssh-shell.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject } from '../../../src/store/identity/projects.ts';
import { findJob, insertJob, updateStatus } from '../../../src/store/jobs/jobs.ts';
import { findAccounts } from '../../../src/store/ledger/accounts.ts';
import { placeHold, settle } from '../../../src/store/ledger/ledger.ts';
import { findCurrentPeriodId } from '../../../src/store/ledger/periods.ts';
import { startCleanup } from '../../../src/workers/cleanup.ts';
import { startExpiryWorker } from '../../../src/workers/expiry-worker.ts';
import type { HeldLease } from '../../../src/workers/hold-lease.ts';
import type { SystemDeps } from '../../../src/workers/jobs/system-deps.ts';
import type { Logger } from '../../../src/workers/loop.ts';
import { hostileLimits } from '../../files/zip/hostile-zips.ts';
import { notAborted } from '../../support/signals.ts';
import { startSshd } from '../../support/sshd.ts';
import { openTestDatabase, publicColumns } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

const jobId = '7B0C3D2E-0000-4000-8000-000000000001';
const warnings: string[] = [];
const log = {
  info: () => undefined,
  warn: (_: object, text: string) => void warnings.push(text),
  error: () => undefined,
} as unknown as Logger;

/** Inserts a job that has ended and whose hold is settled. */
async function insertEndedJob(db: Db): Promise<void> {
  const project = await findProject(db, 'sys', 'proj');
  assert.ok(project);
  const accounts = await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, 2)) ?? 0, '1');
  assert.ok(accounts);
  const command = { kind: 'line', line: 'true' } as const;
  const request = { title: '', nodes: 1, coresPerNode: 1, runtimeHours: 1, tool: null, entry: null, command };
  const job = { jobId, owner: '1', project, request, units: 1, input: null, acceptedAt: 2 };
  await inTransaction(db, async (tx) => {
    const { id } = await insertJob(tx, job, publicColumns('QUEUED'), {});
    await placeHold(tx, { id }, accounts, { timeSeconds: 1, spaceBytes: 1 }, { actor: '1', reason: 'x', at: 2 });
    const stored = await findJob(tx, jobId);
    assert.ok(stored);
    const end = { outcome: 'succeeded', reason: '', exitCode: 0, startedAt: 2, endedAt: 3, elapsedSeconds: 1 } as const;
    await updateStatus(tx, stored, { state: 'ended', ...end }, publicColumns('SUCCESSFUL')(id));
    const used = { kind: 'settled', timeSeconds: 1, spaceBytes: 1, rule: 'x' } as const;
    await settle(tx, { id }, used, { actor: 'bursar', at: 3 });
  });
}

test('a worker that has lost its lease notifies nobody and deletes nothing', async () => {
  const database = await openTestDatabase(['1'], 1000, 1000);
  const { db } = database;
  const errors: string[] = [];
  const lost = new BursarError('lease_lost', 'The lease has expired.', { transient: true });
  try {
    await insertEndedJob(db);
    const worker = startExpiryWorker({
      lease: { assertValid: () => assert.fail(lost), transaction: () => Promise.reject(lost) },
      db,
      retentionDays: () => 1,
      noticeDays: 0,
      eventRetentionDays: 1000,
      intervalMs: 1,
      deleteJob: async () => assert.fail('the job was deleted'),
      publish: () => assert.fail('the owner was notified'),
      now: Date.now,
      log: { ...log, error: (_fields: object, message: string) => void errors.push(message) } as Logger,
    });
    await until('the worker has failed three times', () => (errors.length >= 3 ? true : undefined));
    await worker.stop();
    assert.ok(errors.every((message) => message.includes('will retry')));
    const kinds = await db.selectFrom('events').select('kind').execute();
    assert.deepEqual(kinds, [{ kind: 'job.accepted' }]);
  } finally {
    await database.close();
  }
});

test('deletes expired jobs while their ssh host is down, and their files once the host is reachable again', async () => {
  const [sshd, database] = [await startSshd(), await openTestDatabase(['1'], 1000, 1000)];
  const shell = createSshShell({ ...sshd.options, environment: {}, controlFolder: join(database.folder, 'ssh') });
  const root = join(sshd.folder, 'workspaces');
  const workspaces = createRemoteWorkspaces({
    shell,
    root,
    readTimeoutMs: 30_000,
  });
  const remover = createFileRemover(new Map([['sys', workspaces]]), log);
  const { db } = database;
  try {
    await workspaces.stage(jobId, null, hostileLimits, notAborted);
    await insertEndedJob(db);
    await sshd.stop();
    const systems = toHpcSystems(database.config);
    const lease: HeldLease = { assertValid: () => undefined, transaction: (work) => inTransaction(db, work) };
    const { transaction } = lease;
    const deps = { transaction, systems, removeFiles: remover.remove, now: Date.now };
    const cleanup = startCleanup({
      ...{ db, workspaces, spool: createSpool(join(database.folder, 'spool')), staleMs: 1, log },
      system: systems.get('sys'),
    } as Partial<SystemDeps> as SystemDeps);
    const worker = startExpiryWorker({
      lease,
      db,
      retentionDays: () => 1,
      noticeDays: 0,
      eventRetentionDays: 1000,
      intervalMs: 50,
      deleteJob: (job) => deleteFiles(deps, job, { actor: 'bursar', reason: 'retention period is over' }),
      publish: () => undefined,
      now: Date.now,
      log,
    });
    try {
      const state = async () => (await findJob(db, jobId))?.status.state;
      await until('the job is deleted in the database', async () => ((await state()) === 'deleted' ? true : undefined));
      await until('the removal of its files fails', () => warnings.find((text) => text.includes('not removed')));
      assert.ok(existsSync(join(root, jobId)));
      await until('the cleanup fails', () => warnings.find((text) => text.includes('cleanup failed')));
      await sshd.restart();
      cleanup.wake();
      await until('its files are deleted', () => (existsSync(join(root, jobId)) ? undefined : true));
    } finally {
      await Promise.all([worker.stop(), cleanup.stop(), remover.stop()]);
    }
    const kinds = await db.selectFrom('events').select('kind').orderBy('id').execute();
    assert.deepEqual(
      kinds.map(({ kind }) => kind),
      ['job.accepted', 'job.expiring', 'job.deleted'],
    );
  } finally {
    await shell.close();
    await database.close();
    await sshd.close();
  }
});
