import type { Quota } from '@bursar/client';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { bursar } from '../../../client/bursar.ts';
import { keys } from '../../../client/queries.ts';
import { formatAmount } from '../../../shared/amount.ts';
import { Card } from '../../../ui/card.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';

const userQuotasQuery = (userId: string) =>
  queryOptions({
    queryKey: [...keys.accounts, 'user', userId],
    queryFn: ({ signal }) => bursar.api.listQuotasOfUser({ path: { user_id: userId }, signal }),
  });

/** The projects of a user, with the quota that is left in each. */
export function UserAccounts({ userId }: { userId: string }) {
  const quotas = useQuery(userQuotasQuery(userId));
  return (
    <Card title="Projects and quotas">
      <QueryView query={quotas} loading={<SkeletonLines count={3} />}>
        {(list) =>
          list.length === 0 ? (
            <p className="muted">This user has no quota in any project. A member gets one.</p>
          ) : (
            <QuotaTable quotas={list} />
          )
        }
      </QueryView>
    </Card>
  );
}

function QuotaTable({ quotas }: { quotas: readonly Quota[] }) {
  return (
    <Table label="List of quotas">
      <thead>
        <tr>
          <th>System</th>
          <th>Project</th>
          <th className="number">Time left</th>
          <th className="number">Space left</th>
        </tr>
      </thead>
      <tbody>
        {quotas.map(({ id, project_hpc: system, project_name: project, time_left: time, space_left: space }) => (
          <tr key={id}>
            <td>{system.toLowerCase()}</td>
            <td>
              <Link to="/admin/projects/$hpc/$project" params={{ hpc: system.toLowerCase(), project }}>
                {project}
              </Link>
            </td>
            <td className="number">{formatAmount('time', time)}</td>
            <td className="number">{formatAmount('space', space)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
