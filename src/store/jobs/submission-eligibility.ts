import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import type { MemberStatus } from '../identity/members.ts';

/** Everything that decides whether a user may submit to a project now. */
export interface SubmissionEligibility {
  project: { id: number; hpc: string; name: string; closedAt: number | null };
  /** Null if the user was never a member. */
  member: { status: MemberStatus; reason: string } | null;
  /** Why the system is paused; null if it accepts submissions. */
  pauseReason: string | null;
  /** The current period of the project; null if there is none. */
  periodId: number | null;
}

/** Uses one query. Returns undefined if there is no such project. */
export async function findEligibility(
  db: Db,
  userId: string,
  hpc: string,
  name: string,
  now: number,
): Promise<SubmissionEligibility | undefined> {
  const [row] = await selectEligibility(db, { userId, hpc, name, now });
  if (row === undefined) return undefined;
  const { status, reason, pauseReason, periodId, ...project } = row;
  return { project, member: status === null ? null : { status, reason: reason ?? '' }, pauseReason, periodId };
}

type Values = { userId: string; hpc: string; name: string; now: number };

const selectEligibility = prepareQuery((db, param: Param<Values>) =>
  db
    .selectFrom('projects')
    .leftJoin('systems', 'systems.hpc', 'projects.hpc')
    .leftJoin('memberships', (join) =>
      join.onRef('memberships.projectId', '=', 'projects.id').on('memberships.userId', '=', param('userId')),
    )
    .select(['projects.id', 'projects.hpc', 'projects.name', 'projects.closedAt'])
    .select(['memberships.status', 'memberships.reason', 'systems.pauseReason'])
    .select((eb) =>
      eb
        .selectFrom('periods')
        .select('periods.id')
        .whereRef('periods.projectId', '=', 'projects.id')
        .where('periods.startsAt', '<=', param('now'))
        .where((period) => period.or([period('endsAt', 'is', null), period('endsAt', '>', param('now'))]))
        .as('periodId'),
    )
    .where('projects.hpc', '=', param('hpc'))
    .where('projects.name', '=', param('name')),
);
