import { toIsoTime } from '../contract/fields.ts';
import { msPerDay } from '../domain/units.ts';
import type { Db } from '../store/database/handle.ts';
import { deleteTestDeliveries } from '../store/events/deliveries.ts';
import { expireEvents, insertEvents } from '../store/events/events.ts';
import { listMembers } from '../store/identity/members.ts';
import { getProject } from '../store/identity/projects.ts';
import { expireEndedPeriods } from '../store/ledger/grants.ts';
import { listPeriodsToNotify, markPeriodNotified } from '../store/ledger/periods.ts';
import type { HeldLease } from './hold-lease.ts';
import { type Logger, type Loop, startLoop } from './loop.ts';

export interface PeriodWorkerDeps {
  lease: HeldLease;
  /** For reading only. Writes go through `HeldLease.transaction`. */
  db: Db;
  /** Members are notified this many days before a period ends. */
  noticeDays: number;
  eventRetentionDays: number;
  intervalMs: number;
  now(): number;
  log: Logger;
}

/** Notifies members of periods that end soon, expires the grants of ended periods, and deletes old events. */
export function startPeriodWorker(deps: PeriodWorkerDeps): Loop {
  const { lease, intervalMs, now, log } = deps;
  return startLoop(async () => {
    try {
      await notifyPeriodEnds(deps);
      const expired = await lease.transaction((tx) => expireEndedPeriods(tx, now()));
      if (expired > 0) log.info({ accounts: expired }, 'grants expired');
      const before = now() - deps.eventRetentionDays * msPerDay;
      await lease.transaction((tx) => deleteTestDeliveries(tx, before));
      while (await lease.transaction((tx) => expireEvents(tx, before)));
    } catch (error) {
      log.error({ err: error }, 'period worker failed, will retry');
    }
    return intervalMs;
  });
}

/** Notifies every member once a period: the period is marked in the transaction that writes the events. */
async function notifyPeriodEnds({ lease, db, noticeDays, now }: PeriodWorkerDeps): Promise<void> {
  const at = now();
  for (const period of await listPeriodsToNotify(db, at, at + noticeDays * msPerDay)) {
    await lease.transaction(async (tx) => {
      if (!(await markPeriodNotified(tx, period.id, at))) return;
      const project = await getProject(tx, period.projectId);
      const members = (await listMembers(tx, period.projectId)).filter((member) => member.status === 'active');
      const endsAt = toIsoTime(period.endsAt ?? at);
      const data = { hpc: project.hpc, project_name: project.name, resource: 'time', ends_at: endsAt };
      const userIds = members.map((member) => member.userId);
      await insertEvents(tx, userIds, { job: null, kind: 'quota.expiring', data, at });
    });
  }
}
