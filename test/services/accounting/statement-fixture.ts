import {
  type AccountingFixture,
  adminId,
  defaultProjectPath,
  openAccountingFixture,
} from '../../support/accounting-fixture.ts';
import type { Caller, Job } from '../../support/api.ts';
import { jobPath } from '../../support/jobs.ts';
import { assertLedgerBalances, postCreated, runJob, topUp, withdraw } from '../../support/ledger.ts';
import { createZip } from '../../support/zip.ts';

export const granted = 100_000;
export const user = '302001';

export interface StatementFixture extends AccountingFixture {
  /** The caller of `user`. */
  me: Caller;
  jobs: Job[];
  /** Verifies the ledger first. */
  close(): Promise<void>;
}

/** A server on which `user` has movements of every kind. */
export async function openStatementFixture(): Promise<StatementFixture> {
  const fixture = await openAccountingFixture({ timeSeconds: granted, spaceKb: 1000 });
  const me = await fixture.user(user);
  const zip = await createZip({ 'run.sh': '#!/bin/sh\nhead -c 2500 /dev/zero > out\n' });
  const first = await runJob(me, { command: 'sbatch run.sh', core_number: 2 }, zip);
  const second = await runJob(me, { command: 'exit 1' });
  await topUp(fixture.admin, user, 400);
  await withdraw(fixture.admin, user, 100);
  await topUp(fixture.admin, user, 30, { resource: 'space' });
  const reason = 'a reason, with "quotes", a comma\nand two lines';
  const transfer = { from: user, to: adminId, resource: 'time', amount: 50, reason };
  await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/transfers/`, transfer);
  await me.send('DELETE', jobPath(first));
  const refund = { job_id: first.job_id, amount: 1, reason: '=1+1' };
  await postCreated(fixture.admin, `/admin/grants/${defaultProjectPath}/refunds/`, refund);
  return {
    ...fixture,
    me,
    jobs: [first, second],
    async close() {
      await assertLedgerBalances(fixture.server);
      await fixture.dispose();
    },
  };
}
