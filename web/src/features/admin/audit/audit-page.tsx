import type { AuditRecord } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Fragment, useState } from 'react';
import { Button, buttonClass } from '../../../ui/button.tsx';
import { DescriptionList, PageHeader } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { HiddenColumnHeader, Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { auditPageSize, auditQuery, auditQueryOf } from '../queries.ts';
import { AuditFilters } from './audit-filters.tsx';
import { newerPage, olderPage } from './audit-search.ts';

const route = getRouteApi('/admin/audit');

export function AuditPage() {
  const search = route.useSearch();
  const records = useQuery(auditQuery(search));
  return (
    <>
      <PageHeader
        title="Audit"
        description="Sign-ins, refused requests, and every change to users, projects, quotas and systems. Newest first."
        actions={!records.isError && <Downloads />}
      />
      <AuditFilters search={search} />
      <QueryView query={records} loading={<SkeletonLines count={12} />}>
        {(list) => (
          <>
            <RecordTable records={list.slice(0, auditPageSize)} />
            <Pager records={list} />
          </>
        )}
      </QueryView>
    </>
  );
}

/** All records that match the filters, not only those of this page. */
function Downloads() {
  const { before: _before, newer: _newer, ...filter } = route.useSearch();
  const href = (format: string) => `/admin/audit/?${new URLSearchParams({ ...auditQueryOf(filter), format })}`;
  return (
    <>
      <a className={buttonClass()} href={href('csv')} download="audit.csv">
        CSV
      </a>
      <a className={buttonClass()} href={href('ndjson')} download="audit.ndjson">
        NDJSON
      </a>
    </>
  );
}

function RecordTable({ records }: { records: readonly AuditRecord[] }) {
  const [openId, setOpenId] = useState<number>();
  if (records.length === 0) {
    return (
      <EmptyState
        title="No record matches"
        actions={
          <Link to="/admin/audit" search={{}}>
            Show all records
          </Link>
        }
      />
    );
  }
  return (
    <Table label="Audit records">
      <thead>
        <tr>
          <th scope="col">Time</th>
          <th scope="col">Actor</th>
          <th scope="col">Action</th>
          <th scope="col">Subject</th>
          <th scope="col">Reason</th>
          <HiddenColumnHeader>Details</HiddenColumnHeader>
        </tr>
      </thead>
      <tbody>
        {records.map((record) => (
          <Fragment key={record.id}>
            <RecordRow
              record={record}
              isOpen={openId === record.id}
              onToggle={() => setOpenId(openId === record.id ? undefined : record.id)}
            />
            {openId === record.id && (
              <tr id={`record-${record.id}`}>
                <td colSpan={6}>
                  <RecordDetails record={record} />
                </td>
              </tr>
            )}
          </Fragment>
        ))}
      </tbody>
    </Table>
  );
}

interface RecordRowProps {
  record: AuditRecord;
  isOpen: boolean;
  onToggle: () => void;
}

function RecordRow({ record, isOpen, onToggle }: RecordRowProps) {
  const { before: _before, newer: _newer, ...filter } = route.useSearch();
  const { id, at, actor, action, subject, details } = record;
  return (
    <tr>
      <td className={styles.noWrap}>
        <Time value={at} />
      </td>
      <td>
        <Link to="/admin/audit" search={{ ...filter, actor }}>
          {actor}
        </Link>
      </td>
      <td>
        <Link to="/admin/audit" search={{ ...filter, action }}>
          {action}
        </Link>
      </td>
      <td className={styles.longText} title={subject}>
        {subject}
      </td>
      <td className={styles.longText}>{typeof details.reason === 'string' ? details.reason : ''}</td>
      <td>
        <div className={styles.rowActions}>
          <Button
            variant="quiet"
            aria-expanded={isOpen}
            aria-controls={isOpen ? `record-${id}` : undefined}
            aria-label={`${isOpen ? 'Less' : 'More'} about record ${id}`}
            onClick={onToggle}
          >
            {isOpen ? 'Less' : 'More'}
          </Button>
        </div>
      </td>
    </tr>
  );
}

function RecordDetails({ record }: { record: AuditRecord }) {
  const {
    id,
    subject,
    address,
    token_id: tokenId,
    session_id: sessionId,
    request_id: requestId,
    details,
    hash,
  } = record;
  return (
    <div className={styles.details}>
      <DescriptionList
        items={[
          ['Record', id],
          ['Subject', subject],
          ['Address', address ?? 'the command line'],
          ['By', tokenId === null ? (sessionId === null ? '–' : `session ${sessionId}`) : `token ${tokenId}`],
          ['Request', requestId === null ? '–' : <code key="request">{requestId}</code>],
          ['Hash', <code key="hash">{hash}</code>],
        ]}
      />
      <pre className={styles.detailsJson}>{JSON.stringify(details, null, 2)}</pre>
    </div>
  );
}

function Pager({ records }: { records: readonly AuditRecord[] }) {
  const search = route.useSearch();
  const last = records[auditPageSize - 1];
  const hasOlder = records.length > auditPageSize;
  if (search.before === undefined && !hasOlder) return null;
  return (
    <nav className={styles.pager} aria-label="Pages of records">
      {search.before !== undefined && (
        <>
          <Link className={buttonClass()} to="/admin/audit" search={{ ...search, before: undefined, newer: undefined }}>
            Newest
          </Link>
          <Link className={buttonClass()} to="/admin/audit" search={newerPage(search)}>
            Newer
          </Link>
        </>
      )}
      {hasOlder && last !== undefined && (
        <Link className={buttonClass()} to="/admin/audit" search={olderPage(search, last.id)}>
          Older
        </Link>
      )}
    </nav>
  );
}
