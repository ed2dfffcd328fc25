import type { Static } from 'typebox';
import type { UsageSchema } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import type { Db } from '../../store/database/handle.ts';
import { listMonthlyUsage } from '../../store/ledger/statements.ts';

/** Usage by project and month, of one user or, without a user, of everybody. */
export async function readUsage(db: Db, userId: string | undefined): Promise<Static<typeof UsageSchema>[]> {
  return (await listMonthlyUsage(db, userId)).map(({ user, hpc, project, month, jobs, timeSeconds }) => ({
    user,
    project_hpc: publicSystemName(hpc),
    project_name: project,
    month,
    jobs: Number(jobs),
    time_seconds: Number(timeSeconds),
  }));
}
