import type { ProjectAccount } from '@bursar/client';
import { type ChargeUnit, formatAmount } from '../../shared/amount.ts';
import { Bar } from '../../ui/bar.tsx';
import styles from './admin.module.css';

/** The figures of an account that dialogs and tables show. */
export type AccountFigures = Pick<ProjectAccount, 'user' | 'resource' | 'granted' | 'held' | 'used' | 'available'>;

/** Used, held and free of an account. */
export function AccountBar({ account, charge }: { account: AccountFigures; charge: ChargeUnit }) {
  const { resource, granted, used, held, available } = account;
  const format = (amount: number) => formatAmount(resource, amount, charge);
  return (
    <Bar
      label={`${format(used)} used, ${format(held)} held, ${format(available)} free of ${format(granted)}`}
      max={granted}
      parts={[{ value: used }, { value: held, tone: 'warning' }]}
    />
  );
}

/** The same in a cell of a table, with the numbers that matter most as text. */
export function AccountCell({ account, charge }: { account: AccountFigures | undefined; charge: ChargeUnit }) {
  if (account === undefined) return <span className="muted">–</span>;
  const { resource, available, granted, used, held } = account;
  const format = (amount: number) => formatAmount(resource, amount, charge);
  return (
    <div className={styles.meter}>
      <span>
        {format(available)} <span className="muted">free of {format(granted)}</span>
      </span>
      <AccountBar account={account} charge={charge} />
      {(used > 0 || held > 0) && (
        <span className={styles.cellNote}>
          {format(used)} used{held > 0 ? `, ${format(held)} held by jobs` : ''}
        </span>
      )}
    </div>
  );
}
