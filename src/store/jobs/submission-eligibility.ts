import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';

/** Everything that decides whether a user may submit to a project now. */
export type SubmissionEligibility = NonNullable<Awaited<ReturnType<typeof findEligibility>>>;

/** Uses one query. Returns undefined if there is no such project. */
export async function findEligibility(db: Db, userId: string, hpc: string, name: string, now: number) {
  const [row] = await selectEligibility(db, { userId, hpc, name, now });
  if (row === undefined) return undefined;
  const { status, reason, pauseReason, periodId, ...project } = row;
  // Null if the user was never a member.
  const member = status === null ? null : { status, reason: reason ?? '' };
  return { project, member, pauseReason, periodId };
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
