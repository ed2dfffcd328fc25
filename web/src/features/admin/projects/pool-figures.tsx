import type { ProjectAccount } from '@bursar/client';
import { type ChargeUnit, formatAmount, type Resource } from '../../../shared/amount.ts';
import { DescriptionList } from '../../../ui/card.tsx';
import { Time } from '../../../ui/time.tsx';
import { AccountBar } from '../account-figures.tsx';
import styles from '../admin.module.css';
import { findAccount, reserveOf } from './accounts.ts';

const titles: Record<Resource, string> = { time: 'Time', space: 'Space' };

/** The pool of a project: time of the current period, and space. */
export function PoolFigures({ accounts, charge }: { accounts: readonly ProjectAccount[]; charge: ChargeUnit }) {
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
                <DescriptionList
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
