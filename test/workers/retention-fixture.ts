import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type AccountingFixture, openAccountingFixture } from '../support/accounting-fixture.ts';
import type { Caller, Job } from '../support/api.ts';
import { runJob } from '../support/ledger.ts';
import type { ShippedConfig } from '../support/shipped-config.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

export const dayMs = 86_400_000;
export const retentionDays = 100;
export const noticeDays = 7;

/** Sets the retention period of the projects of hpc_one; undefined keeps files for ever. */
export const withRetention = (days: number | undefined) => (config: ShippedConfig) => {
  for (const project of config.systems.hpc_one?.projects ?? []) {
    if (days === undefined) delete project.retentionDays;
    else project.retentionDays = days;
  }
};

export type RetentionFixture = Awaited<ReturnType<typeof openRetentionFixture>>;

/** A server that deletes the files of jobs that ended a hundred days ago. */
export async function openRetentionFixture(ownProcess = false) {
  const fixture: AccountingFixture = await openAccountingFixture({
    ownProcess,
    adjust: withRetention(retentionDays),
    tuning: { expiryIntervalMs: 100 },
  });
  const listEvents = async (job: Job, kind: string) => {
    const query = 'select data from events where job = ? and kind = ?';
    const rows = await fixture.query<{ data: string }>(query, job.id, kind);
    return rows.map(({ data }) => JSON.parse(data) as Record<string, string>);
  };
  return {
    fixture,
    hasWorkspace: (job: Job) => existsSync(join(fixture.server.data, 'workspaces', job.job_id)),
    listEvents,
    /** Runs a job with files, and sets its end to a number of days ago. */
    async jobEndedDaysAgo(days: number, owner: Caller): Promise<Job> {
      const job = await runJob(owner, { command: 'echo output' }, await createZip({ input: 'x'.repeat(5000) }));
      await fixture.tamper('update jobs set ended_at = ? where id = ?', Date.now() - days * dayMs, job.id);
      return job;
    },
    /** Waits until the owner is notified. */
    waitForNotice: (job: Job) => until('the owner is notified', async () => (await listEvents(job, 'job.expiring'))[0]),
  };
}
