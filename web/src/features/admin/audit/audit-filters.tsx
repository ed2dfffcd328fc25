import { getRouteApi } from '@tanstack/react-router';
import type { SubmitEvent } from 'react';
import { Button } from '../../../ui/button.tsx';
import { TextField } from '../../../ui/field.tsx';
import { Link } from '../../../ui/link.tsx';
import styles from '../admin.module.css';
import { type AuditSearch, validateAuditSearch } from './audit-search.ts';

const route = getRouteApi('/admin/audit');

/** Actions by family, as suggestions. Every action of a family begins with its name. */
const families = ['access', 'grant', 'member', 'project', 'user', 'token', 'session', 'system', 'job', 'webhook'];

/** The fields are applied together: each change is a request to the server. */
export function AuditFilters({ search }: { search: AuditSearch }) {
  const navigate = route.useNavigate();
  const { before: _before, newer: _newer, ...filter } = search;
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.currentTarget));
    const trimmed = Object.entries(fields).map(([name, value]) => [name, String(value).trim()]);
    void navigate({ search: validateAuditSearch(Object.fromEntries(trimmed)) });
  };
  return (
    <search aria-label="Audit records">
      {/* The fields show the filter of the address, also after the back button. */}
      <form key={JSON.stringify(filter)} className={styles.filters} onSubmit={submit}>
        <TextField label="Actor" name="actor" type="search" placeholder="300001" defaultValue={search.actor} />
        <TextField label="Action" name="action" placeholder="grant" list="actions" defaultValue={search.action} />
        <datalist id="actions">
          {families.map((family) => (
            <option key={family} value={family} />
          ))}
        </datalist>
        <TextField label="Subject" name="subject" placeholder="hpc_one/climate" defaultValue={search.subject} />
        <TextField label="From" name="from" type="date" defaultValue={search.from} />
        <TextField label="To" name="to" type="date" defaultValue={search.to} />
        <div className="row">
          <Button type="submit">Filter</Button>
          {isFiltered && (
            <Link to="/admin/audit" search={{}}>
              Clear
            </Link>
          )}
        </div>
      </form>
    </search>
  );
}
