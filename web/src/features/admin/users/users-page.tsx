import type { User } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { Badge } from '../../../ui/badge.tsx';
import { PageHeader } from '../../../ui/card.tsx';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { formatCount, formatNumber } from '../../../ui/format.ts';
import { Link } from '../../../ui/link.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { usersQuery } from '../queries.ts';
import { RoleBadge } from './role-badge.tsx';
import { type Role, type UsersSearch, userRoles } from './users-search.ts';

const route = getRouteApi('/admin/users');
/** More rows would make the page slow, and nobody reads them: the search finds the rest. */
const maxRows = 200;

export function UsersPage() {
  const search = route.useSearch();
  const users = useQuery(usersQuery);
  return (
    <>
      <PageHeader
        title="Users"
        description="A user exists from the first sign-in, or the first request with a token."
      />
      <UserFilters search={search} />
      <QueryView query={users} loading={<SkeletonLines count={10} />}>
        {(all) => <UserTable users={all.filter((user) => matches(user, search))} />}
      </QueryView>
    </>
  );
}

function UserFilters({ search }: { search: UsersSearch }) {
  const navigate = route.useNavigate();
  const change = (part: UsersSearch) => void navigate({ search: { ...search, ...part }, replace: true });
  // The address follows the text, and not the other way round, which would lose letters of fast typists.
  const [text, setText] = useState(search.search ?? '');
  useEffect(() => {
    if (search.search === undefined) setText('');
  }, [search.search]);
  return (
    <search className={styles.filters}>
      <TextField
        label="Search"
        type="search"
        placeholder="Identifier, name or mail"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          change({ search: event.target.value || undefined });
        }}
      />
      <SelectField
        label="Role"
        value={search.role ?? ''}
        onChange={(event) => change({ role: (event.target.value || undefined) as Role | undefined })}
      >
        <option value="">All roles</option>
        {userRoles.map((role) => (
          <option key={role}>{role}</option>
        ))}
      </SelectField>
      <SelectField
        label="State"
        value={search.state ?? ''}
        onChange={(event) => change({ state: (event.target.value || undefined) as UsersSearch['state'] })}
      >
        <option value="">Enabled and disabled</option>
        <option value="enabled">Enabled</option>
        <option value="disabled">Disabled</option>
      </SelectField>
    </search>
  );
}

function UserTable({ users }: { users: readonly User[] }) {
  if (users.length === 0) {
    return (
      <EmptyState
        title="No user matches"
        actions={
          <Link to="/admin/users" search={{}}>
            Show all users
          </Link>
        }
      />
    );
  }
  return (
    <>
      <Table label="Users">
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">Name</th>
            <th scope="col">Mail</th>
            <th scope="col">Role</th>
            <th scope="col">State</th>
            <th scope="col">Since</th>
          </tr>
        </thead>
        <tbody>
          {users.slice(0, maxRows).map(({ user, name, mail, role, created_at: createdAt, disabled_at: disabledAt }) => (
            <tr key={user}>
              <td>
                <Link to="/admin/users/$userId" params={{ userId: user }}>
                  {user}
                </Link>
              </td>
              <td>{name ?? <span className="muted">–</span>}</td>
              <td>{mail ?? <span className="muted">–</span>}</td>
              <td>
                <RoleBadge role={role} />
              </td>
              <td>{disabledAt === null ? 'Enabled' : <Badge tone="bad">Disabled</Badge>}</td>
              <td>
                <Time value={createdAt} form="date" />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
      <p className={styles.note} role="status">
        {users.length > maxRows
          ? `${maxRows} of ${formatNumber(users.length)} users. Search for the others.`
          : formatCount(users.length, 'user')}
      </p>
    </>
  );
}

function matches({ user, name, mail, role, disabled_at: disabledAt }: User, search: UsersSearch): boolean {
  if (search.role !== undefined && role !== search.role) return false;
  if (search.state !== undefined && (disabledAt === null) !== (search.state === 'enabled')) return false;
  const text = search.search?.trim().toLowerCase();
  return text === undefined || [user, name, mail].some((value) => value?.toLowerCase().includes(text));
}
