import type { Db } from '../database/handle.ts';
import { prepared, type Value } from '../database/prepared.ts';
import type { MemberStatus } from '../identity/members.ts';

/** What decides whether a user may submit to a project now, in one look. */
export interface SubmissionEligibility {
  project: { id: number; hpc: string; name: string; closedAt: number | null };
  /** Null for who never was a member. */
  member: { status: MemberStatus; reason: string } | null;
  /** Why the system takes no submissions; null when it does. */
  pauseReason: string | null;
}

/** Undefined when there is no such project. */
export async function findEligibility(
  db: Db,
  userId: string,
  hpc: string,
  name: string,
): Promise<SubmissionEligibility | undefined> {
  const [row] = await selectEligibility(db, { userId, hpc, name });
  if (row === undefined) return undefined;
  const { status, reason, pause, ...project } = row;
  return { project, member: status === null ? null : { status, reason: reason ?? '' }, pauseReason: pause };
}

const selectEligibility = prepared((db, value: Value<{ userId: string; hpc: string; name: string }>) =>
  db
    .selectFrom('projects')
    .leftJoin('systems', 'systems.hpc', 'projects.hpc')
    .leftJoin('memberships', (join) =>
      join.onRef('memberships.project_id', '=', 'projects.id').on('memberships.user_id', '=', value('userId')),
    )
    .select(['projects.id', 'projects.hpc', 'projects.name', 'projects.closed_at as closedAt'])
    .select(['memberships.status', 'memberships.reason', 'systems.pause_reason as pause'])
    .where('projects.hpc', '=', value('hpc'))
    .where('projects.name', '=', value('name')),
);
