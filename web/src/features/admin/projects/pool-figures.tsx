import { formatAmount, type Resource } from '../../../shared/amount.ts';
import { Bar } from '../../../ui/bar.tsx';
import { Facts } from '../../../ui/card.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { type AccountFigures, type Charge, findAccount, type ProjectAccount, reserveOf } from './accounts.ts';

const titles: Record<Resource, string> = { time: 'Time', space: 'Space' };

/** The pool of a project: time of the current period, and space. */
export function PoolFigures({ accounts, charge }: { accounts: readonly ProjectAccount[]; charge: Charge }) {
  return (
    <div className={styles.columns}>
      {(['time', 'space'] as const).map((resource) => {
        const pool = findAccount(accounts, null, resource);
        const format = (amount: number) => formatAmount(resource, amount, charge);
        return (
          <section key={resource} className="stack" aria-label={titles[resource]}>
            <h3>{titles[resource]}</h3>
            {pool === undefined ? (
              <p className="muted">
                {resource === 'time'
                  ? 'No current period. Open one, so that jobs can be submitted.'
                  : 'Nothing granted.'}
              </p>
            ) : (
              <>
                <AccountBar account={pool} charge={charge} />
                <Facts
                  items={[
                    ['Free', format(pool.available)],
                    ['Used', format(pool.used)],
                    ['Held by jobs', format(pool.held)],
                    ['Granted', format(pool.granted)],
                    ['Reserve', `${format(reserveOf(accounts, resource))} granted to no member`],
                    ...(resource === 'time' ? [['Period', <Period key="period" pool={pool} />] as const] : []),
                  ]}
                />
              </>
            )}
          </section>
        );
      })}
    </div>
  );
}

function Period({ pool: { starts, ends } }: { pool: ProjectAccount }) {
  return (
    <>
      since <Time value={starts} form="date" />, {ends === null ? 'without end' : 'to '}
      {ends !== null && <Time value={ends} />}
    </>
  );
}

/** Used, held and free of an account. */
export function AccountBar({ account, charge }: { account: AccountFigures; charge: Charge }) {
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
