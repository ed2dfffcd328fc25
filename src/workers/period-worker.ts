import { msPerDay } from '../domain/units.ts';
import type { Db } from '../store/database/tables.ts';
import { deleteTestDeliveries } from '../store/events/deliveries.ts';
import { expireEvents, insertEvents } from '../store/events/events.ts';
import { listMembers } from '../store/identity/members.ts';
import { expireEnded } from '../store/ledger/grants.ts';
import { markNotified, periodsToNotify } from '../store/ledger/periods.ts';
import type { HeldLease } from './hold-lease.ts';
import type { Log } from './log.ts';
import { type Loop, startLoop } from './loop.ts';

export interface PeriodWorkerDeps {
  tenure: HeldLease;
  /** For reading; what is written is written by the tenure. */
  db: Db;
  /** How long before the end of a period its members are told. */
  noticeDays: number;
  /** How long events are kept. */
  keepEventsDays: number;
  everyMs: number;
  now(): number;
  log: Log;
}

/** Does what falls due by the calendar: grants expire, their ends are announced, what is old is forgotten. */
export function startPeriodWorker(deps: PeriodWorkerDeps): Loop {
  const { tenure, everyMs, now, log } = deps;
  return startLoop(async () => {
    try {
      await announceEnds(deps);
      const expired = await tenure.transaction((tx) => expireEnded(tx, now()));
      if (expired > 0) log.info({ accounts: expired }, 'grants expired');
      const before = now() - deps.keepEventsDays * msPerDay;
      await tenure.transaction((tx) => deleteTestDeliveries(tx, before));
      while (await tenure.transaction((tx) => expireEvents(tx, before)));
    } catch (error) {
      log.error({ err: error }, 'accounting by the calendar failed');
    }
    return everyMs;
  });
}

/** Once a period, for every member: who is to tell is decided in the transaction that tells. */
async function announceEnds({ tenure, db, noticeDays, now }: PeriodWorkerDeps): Promise<void> {
  const at = now();
  for (const period of await periodsToNotify(db, at, at + noticeDays * msPerDay)) {
    await tenure.transaction(async (tx) => {
      if (!(await markNotified(tx, period.id, at))) return;
      const project = await tx
        .selectFrom('projects')
        .select(['hpc', 'name'])
        .where('id', '=', period.projectId)
        .executeTakeFirstOrThrow();
      const members = (await listMembers(tx, period.projectId)).filter((member) => member.status === 'active');
      const ends = new Date(period.endsAt ?? at).toISOString();
      const data = { hpc: project.hpc, project_name: project.name, resource: 'time', ends_at: ends };
      const userIds = members.map((member) => member.userId);
      await insertEvents(tx, userIds, { job: null, kind: 'quota.expiring', data, at });
    });
  }
}
