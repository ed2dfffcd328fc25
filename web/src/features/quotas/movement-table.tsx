import type { Statement } from '@bursar/client';
import { useMemo } from 'react';
import type { ChargeUnit, Resource } from '../../shared/amount.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { formatCount, formatNumber } from '../../ui/format.ts';
import { Link } from '../../ui/link.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { type AmountFormat, exactFormat, formatChange } from './exact-amount.ts';
import { kindTexts, type Movement } from './movement-kinds.ts';
import styles from './quotas.module.css';

/** A page of the table is short enough to be drawn at once, however long the statement is. */
const pageSize = 50;

interface MovementTableProps {
  account: Statement['space'];
  resource: Resource;
  charge: ChargeUnit;
  path: { hpc: string; project: string };
  kind: string | undefined;
  page: number;
  onPage: (page: number) => void;
}

/** The movements, newest first, with the balance after each. */
export function MovementTable({ account, resource, charge, path, kind, page, onPage }: MovementTableProps) {
  const { movements, opening_balance: opening, closing_balance: closing } = account;
  const shown = useMemo(
    () => movements.filter((movement) => kind === undefined || movement.kind === kind).reverse(),
    [movements, kind],
  );
  const amounts = useMemo(
    () => exactFormat(resource, charge, [opening, ...movements.map(({ change }) => change)]),
    [resource, charge, opening, movements],
  );
  const pages = Math.max(1, Math.ceil(shown.length / pageSize));
  const current = Math.min(page, pages);
  if (shown.length === 0) {
    return (
      <Card>
        <EmptyState title="No movements">
          {kind === undefined ? 'Nothing has changed in this time.' : 'None of this kind in this time.'}
        </EmptyState>
      </Card>
    );
  }
  const sum = shown.reduce((total, { change }) => total + change, 0);
  return (
    <section className="stack" aria-label="Movements">
      <Table label="Movements, newest first">
        <thead>
          <tr>
            <th scope="col" className={styles.wide}>
              Date
            </th>
            <th scope="col">Movement</th>
            <th scope="col" className="number">
              Change<span className={styles.wide}> ({amounts.unit})</span>
              <div className={styles.narrow}>Balance</div>
            </th>
            <th scope="col" className={`number ${styles.wide}`}>
              Balance ({amounts.unit})
            </th>
          </tr>
        </thead>
        <tbody>
          {kind === undefined && current === 1 && (
            <BalanceRow name="Closing balance" amount={amounts.format(closing)} />
          )}
          {shown.slice((current - 1) * pageSize, current * pageSize).map((movement) => (
            <MovementRow key={`${movement.id}-${movement.kind}`} movement={movement} amounts={amounts} path={path} />
          ))}
          {kind === undefined && current === pages && (
            <BalanceRow name="Opening balance" amount={amounts.format(opening)} />
          )}
        </tbody>
      </Table>
      <nav className={styles.pager} aria-label="Pages of the statement">
        <span className="muted">
          {formatCount(shown.length, 'movement')}, sum {formatChange(amounts.format, sum)} {amounts.unit}
        </span>
        {pages > 1 && (
          <span className="row">
            <Button disabled={current === 1} onClick={() => onPage(current - 1)}>
              Newer
            </Button>
            <span>
              Page {current} of {formatNumber(pages)}
            </span>
            <Button disabled={current === pages} onClick={() => onPage(current + 1)}>
              Older
            </Button>
          </span>
        )}
      </nav>
    </section>
  );
}

function BalanceRow({ name, amount }: { name: string; amount: string }) {
  return (
    <tr className={styles.balance}>
      <td className={styles.wide} />
      <td>{name}</td>
      <td className={`number ${styles.wide}`} />
      <td className="number">{amount}</td>
    </tr>
  );
}

interface MovementRowProps {
  movement: Movement;
  amounts: AmountFormat;
  path: MovementTableProps['path'];
}

function MovementRow({ movement, amounts, path }: MovementRowProps) {
  return (
    <tr>
      <td className={`${styles.date} ${styles.wide}`}>
        <Time value={movement.at} />
      </td>
      <td className={styles.movement}>
        {kindTexts[movement.kind]}{' '}
        {movement.job_id !== null && (
          <Link
            to="/jobs/$hpc/$project/$jobId"
            params={{ ...path, jobId: movement.job_id }}
            className={styles.job}
            title={movement.job_id}
          >
            {movement.job_id}
          </Link>
        )}
        <div className={styles.note}>
          <span className={styles.narrow}>
            <Time value={movement.at} />
          </span>
          {noteOf(movement)}
        </div>
      </td>
      <td className="number">
        <span className={movement.change > 0 ? styles.gain : undefined}>
          {formatChange(amounts.format, movement.change)}
        </span>
        <div className={`${styles.narrow} ${styles.note}`}>{amounts.format(movement.balance)}</div>
      </td>
      <td className={`number ${styles.wide}`}>{amounts.format(movement.balance)}</td>
    </tr>
  );
}

/** The reason of a person, or that of the system. The name of the job is beside it already. */
function noteOf({ reason, actor, job_id: jobId }: Movement): string {
  const hasReason = reason !== '' && !(jobId !== null && reason.includes(jobId));
  const isPerson = jobId === null && actor !== 'bursar';
  return [hasReason ? reason : '', isPerson ? `by ${actor}` : ''].filter((part) => part !== '').join(' · ');
}
