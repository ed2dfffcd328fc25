import type { ProjectAccount } from '@bursar/client';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { bursar } from '../../../client/bursar.ts';
import { keys } from '../../../client/queries.ts';
import { chargeOf } from '../../../shared/amount.ts';
import { systemName } from '../../../shared/system-name.ts';
import { Card } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { AccountCell } from '../account-figures.tsx';

const userAccountsQuery = (userId: string) =>
  queryOptions({
    queryKey: [...keys.accounts, 'user', userId],
    queryFn: ({ signal }) => bursar.api.listAccountsOfUser({ path: { user_id: userId }, signal }),
    staleTime: 10_000,
    refetchOnWindowFocus: true,
  });

/** The projects of a user, with the quota in each. */
export function UserAccounts({ userId }: { userId: string }) {
  const accounts = useQuery(userAccountsQuery(userId));
  return (
    <Card title="Projects and quotas">
      <QueryView query={accounts} loading={<SkeletonLines count={3} />}>
        {(list) =>
          list.length === 0 ? (
            <p className="muted">This user has no quota in any project. A member gets one.</p>
          ) : (
            <AccountTable userId={userId} accounts={list} />
          )
        }
      </QueryView>
    </Card>
  );
}

function AccountTable({ userId, accounts }: { userId: string; accounts: readonly ProjectAccount[] }) {
  const projects = Map.groupBy(
    // The pools of the same projects are on the pages of the projects.
    accounts.filter(({ user }) => user === userId),
    (account) => `${systemName(account)}/${account.project_name}`,
  );
  return (
    <Table label="List of quotas">
      <thead>
        <tr>
          <th scope="col">Project</th>
          <th scope="col">System</th>
          <th scope="col">Time</th>
          <th scope="col">Space</th>
        </tr>
      </thead>
      <tbody>
        {[...projects].map(([key, list]) => {
          const [hpc = '', project = ''] = key.split('/');
          const time = list.find(({ resource }) => resource === 'time');
          return (
            <tr key={key}>
              <td>
                <Link to="/admin/projects/$hpc/$project" params={{ hpc, project }}>
                  {project}
                </Link>
              </td>
              <td>{hpc}</td>
              <td>
                <AccountCell account={time} charge={chargeOf(time?.unit ?? '')} />
              </td>
              <td>
                <AccountCell account={list.find(({ resource }) => resource === 'space')} charge="wall" />
              </td>
            </tr>
          );
        })}
      </tbody>
    </Table>
  );
}
