import type { Db } from '../database/handle.ts';
import { type Param, prepareQuery } from '../database/prepared.ts';
import { type Account, poolHolder, toAccountSet } from '../ledger/accounts.ts';
import { isCurrentPeriod } from '../ledger/periods.ts';

/** Everything that decides whether a user may submit to a project now. */
export type SubmissionEligibility = NonNullable<Awaited<ReturnType<typeof findEligibility>>>;

/**
 * Uses one query. Returns undefined if there is no such project. The member is null if the user was never one. There are no
 * accounts without a current period.
 */
export async function findEligibility(db: Db, userId: string, hpc: string, name: string, now: number) {
  const rows = await selectEligibility(db, { userId, hpc, name, now });
  const [row] = rows;
  if (row === undefined) return undefined;
  const { status, reason, pauseReason, closedAt } = row;
  return {
    project: { id: row.project, hpc, name, closedAt },
    member: status === null ? null : { status, reason: reason ?? '' },
    pauseReason,
    accounts: toAccountSet(rows.filter((account): account is typeof account & Account => account.id !== null)),
  };
}

type Values = { userId: string; hpc: string; name: string; now: number };

/** A row for each account of the project and the user. Every project has a pool of space, which belongs to no period. */
const selectEligibility = prepareQuery((db, param: Param<Values>) =>
  db
    .selectFrom('projects')
    .leftJoin('systems', 'systems.hpc', 'projects.hpc')
    .leftJoin('memberships', (join) =>
      join.onRef('memberships.projectId', '=', 'projects.id').on('memberships.userId', '=', param('userId')),
    )
    .leftJoin('accounts', (join) =>
      join.onRef('accounts.projectId', '=', 'projects.id').on('accounts.holder', 'in', [poolHolder, param('userId')]),
    )
    .leftJoin('periods', 'periods.id', 'accounts.periodId')
    .selectAll('accounts')
    .select(['projects.id as project', 'projects.closedAt'])
    .select(['memberships.status', 'memberships.reason', 'systems.pauseReason'])
    .where('projects.hpc', '=', param('hpc'))
    .where('projects.name', '=', param('name'))
    .where(isCurrentPeriod(param('now'))),
);
