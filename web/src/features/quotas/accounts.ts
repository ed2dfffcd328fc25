import type { Statement } from '@bursar/client';
import { queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';
import type { Resource } from '../../shared/amount.ts';

/** The figures of one resource of the user in a project. */
export interface AccountFigures {
  project_hpc: string;
  project_name: string;
  resource: Resource;
  granted: number;
  held: number;
  used: number;
  available: number;
  starts: string | null;
  ends: string | null;
}

export const accountsQuery = queryOptions({
  queryKey: keys.accounts,
  queryFn: async ({ signal }) => {
    const quotas = await bursar.quotas({ signal });
    const statements = await Promise.all(
      quotas.map(({ project_hpc: hpc, project_name: project }) =>
        bursar.statement({ hpc: hpc.toLowerCase(), project, signal }),
      ),
    );
    return statements.flatMap((statement) => [figuresOf(statement, 'time'), figuresOf(statement, 'space')]);
  },
});

function figuresOf(statement: Statement, resource: Resource): AccountFigures {
  const { movements, closing_balance: available } = statement[resource];
  const used = movements.reduce((total, movement) => total + movement.used, 0);
  const held = movements.reduce(
    (total, { kind, change }) => (kind === 'reserve' || kind === 'release' ? total - change : total),
    0,
  );
  const { project_hpc, project_name } = statement;
  const granted = available + used + held;
  return { project_hpc, project_name, resource, granted, held, used, available, starts: null, ends: null };
}
