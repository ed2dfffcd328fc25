import type { Static } from 'typebox';
import type { UsageSchema } from '../../contract/ledger.ts';
import { publicSystemName } from '../../domain/systems/system.ts';
import type { Db } from '../../store/database/handle.ts';
import { listUsage } from '../../store/ledger/monthly-usage.ts';

/** Usage by project and month, of one user or, without a user, of everybody. In batches, because it may be long. */
export async function* readUsage(db: Db, userId: string | undefined): AsyncGenerator<Static<typeof UsageSchema>[]> {
  for await (const records of listUsage(db, userId))
    yield records.map(({ user, hpc, project, month, jobs, timeSeconds }) => ({
      user,
      project_hpc: publicSystemName(hpc),
      project_name: project,
      month,
      jobs,
      time_seconds: timeSeconds,
    }));
}
