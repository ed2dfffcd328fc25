import type { Static } from 'typebox';
import type { PeriodBody, PeriodSchema } from '../../contract/administration.ts';
import { toIsoTime, toIsoTimeOrNull } from '../../contract/fields.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Tx } from '../../store/database/handle.ts';
import { listMembers } from '../../store/identity/members.ts';
import { lockProject, type ProjectRecord } from '../../store/identity/projects.ts';
import { addGrant, ensurePool } from '../../store/ledger/grants.ts';
import { endPeriod, insertPeriod, listOpenPeriods } from '../../store/ledger/periods.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import { createCap } from '../identity/enrolment.ts';
import { type ProjectScope, requireProject } from '../scope.ts';
import type { GrantDeps } from './grants.ts';
import { insertQuotaEvents, listActiveMembers } from './quota-events.ts';

export async function openPeriod(
  deps: GrantDeps,
  scope: ProjectScope,
  body: Static<typeof PeriodBody>,
  request: AdminRequest,
): Promise<Static<typeof PeriodSchema>> {
  const { starts, ends, member_seconds: memberSeconds, reserve_seconds: reserveSeconds, reason } = body;
  const startsAt = starts === undefined ? null : Date.parse(starts);
  const endsAt = ends === undefined ? null : Date.parse(ends);
  const project = await requireProject(deps, scope);
  let notified: readonly string[] = [];
  const action = { ...request, name: 'grant.period', subject: `${project.hpc}/${project.name}`, details: body };
  const opened = await executeAdminAction(deps, action, async (tx, at) => {
    const userIds = await listActiveMembers(tx, project);
    const change = { userIds, resource: 'time', account: 'cap', change: memberSeconds } as const;
    notified = await insertQuotaEvents(tx, project, [change], reason, at);
    const period = { startsAt, endsAt, memberSeconds, reserveSeconds, reason };
    return await openGrantPeriod(tx, project, period, request.actor.userId, at);
  });
  for (const userId of notified) deps.userTopic.publish(userId);
  return { id: opened.id, starts: toIsoTime(opened.startsAt), ends: toIsoTimeOrNull(opened.endsAt) };
}

interface NewPeriod {
  /** Null: starts now. */
  startsAt: number | null;
  /** Null: has no end. */
  endsAt: number | null;
  /** Granted to each active member. */
  memberSeconds: number;
  /** Granted to the project and not allocated to any member. */
  reserveSeconds: number;
  reason: string;
}

/**
 * Opens a period in which a project has a grant of time. A current period without end is ended where the new one
 * starts; any other overlap is rejected. Jobs that hold time of the old period settle against the old period.
 */
export async function openGrantPeriod(tx: Tx, project: ProjectRecord, period: NewPeriod, actor: string, now: number) {
  const { endsAt, memberSeconds, reserveSeconds, reason } = period;
  const startsAt = period.startsAt ?? now;
  if (startsAt < now)
    throw new BursarError('conflict', 'A period cannot start in the past. Leave out "starts" to start now.');
  if (endsAt !== null && endsAt <= startsAt) throw new BursarError('conflict', 'A period must end after its start.');
  await lockProject(tx, project.id);
  for (const other of await listOpenPeriods(tx, project.id, now)) {
    if (other.endsAt === null && other.startsAt < startsAt) await endPeriod(tx, other.id, startsAt);
    else if ((other.endsAt ?? Number.POSITIVE_INFINITY) > startsAt && (endsAt === null || other.startsAt < endsAt)) {
      const end = other.endsAt === null ? 'on' : `to ${new Date(other.endsAt).toISOString()}`;
      const span = `${new Date(other.startsAt).toISOString()} ${end}`;
      throw new BursarError('conflict', `The period overlaps with the one from ${span}.`);
    }
  }
  const periodId = await insertPeriod(tx, { projectId: project.id, startsAt, endsAt });
  const note = { actor, reason, at: now };
  await addGrant(tx, await ensurePool(tx, project.id, 'time', periodId), reserveSeconds, 'grant', note);
  for (const { userId, status } of await listMembers(tx, project.id)) {
    const amount = status === 'active' ? memberSeconds : 0;
    await createCap(tx, { projectId: project.id, holder: userId, resource: 'time', periodId }, amount, note);
  }
  return { id: periodId, startsAt, endsAt };
}
