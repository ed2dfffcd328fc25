import type { Statement } from '@bursar/client';
import type { ReactNode } from 'react';
import { type ChargeUnit, formatAmount, type Resource } from '../../shared/amount.ts';
import { Card } from '../../ui/card.tsx';
import { Time } from '../../ui/time.tsx';
import { formatChange } from './exact-amount.ts';
import type { Movement } from './movement-kinds.ts';
import styles from './quotas.module.css';

interface StatementSummaryProps {
  statement: Statement;
  resource: Resource;
  charge: ChargeUnit;
}

/** The balances at both ends of the range, and the sums between them. */
export function StatementSummary({ statement, resource, charge }: StatementSummaryProps) {
  const { opening_balance: opening, closing_balance: closing, movements } = statement[resource];
  const amount = (value: number) => formatAmount(resource, value, charge);
  const signed = (value: number) => formatChange(amount, value);
  const used = movements.reduce((total, movement) => total + movement.used, 0);
  const held = movements.reduce((total, { kind, change }) => total - (isHold(kind) ? change : 0), 0);
  const granted = closing - opening + used + held;
  const rate = statement.time.burn_rate_per_day;
  return (
    <Card>
      <dl className={styles.figures}>
        <Figure name="Opening balance" value={amount(opening)}>
          <Time value={movements[0] === undefined || opening !== 0 ? statement.from : movements[0].at} form="date" />
        </Figure>
        <Figure name="Granted" value={signed(granted)}>
          less what was withdrawn or expired
        </Figure>
        <Figure name="Used" value={signed(-used)}>
          {resource === 'time' ? 'charged, less refunds' : 'by files of jobs'}
        </Figure>
        <Figure name="Held" value={signed(-held)}>
          for jobs that have not ended
        </Figure>
        <Figure name="Closing balance" value={amount(closing)}>
          <Time value={statement.to} form="date" />
        </Figure>
        {resource === 'time' && (
          <Figure name="Rate of use" value={`${formatAmount('time', rate, charge)} / day`}>
            {statement.time.runs_out_at === null ? (
              'does not run out'
            ) : (
              <>
                runs out <Time value={statement.time.runs_out_at} form="date" />
              </>
            )}
          </Figure>
        )}
      </dl>
    </Card>
  );
}

const isHold = (kind: Movement['kind']) => kind === 'reserve' || kind === 'release';

function Figure({ name, value, children }: { name: string; value: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
      <dd className={styles.note}>{children}</dd>
    </div>
  );
}
