import type { Statement } from '@bursar/client';
import { lazy, Suspense, useMemo } from 'react';
import { type ChargeUnit, formatAmount, type Resource } from '../../shared/amount.ts';
import { Card } from '../../ui/card.tsx';
import { Skeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { burnDownOf, dailyBalances } from './burn-down-data.ts';
import styles from './quotas.module.css';

const Plot = lazy(() => import('../../ui/plot.tsx'));

interface BurnDownProps {
  statement: Statement;
  resource: Resource;
  charge: ChargeUnit;
}

/** The balance over time, and the line to the day on which it runs out at the present rate. */
export function BurnDown({ statement, resource, charge }: BurnDownProps) {
  const { times, series, marks } = useMemo(() => burnDownOf(statement, resource), [statement, resource]);
  const format = useMemo(() => {
    const perHour = resource === 'time' ? 3600 : 1;
    return (value: number) => formatAmount(resource, value * perHour, charge);
  }, [resource, charge]);
  return (
    <Card title="Balance over time">
      <Suspense fallback={<Skeleton height="270px" />}>
        <Plot times={times} series={series} marks={marks} format={format} />
      </Suspense>
      <details className={styles.details}>
        <summary>The same as a table</summary>
        <DayTable statement={statement} resource={resource} charge={charge} />
      </details>
    </Card>
  );
}

const localDate = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });

function DayTable({ statement, resource, charge }: BurnDownProps) {
  const days = useMemo(() => dailyBalances(statement[resource].movements), [statement, resource]);
  return (
    <Table label="Balance at the end of each day with movements">
      <thead>
        <tr>
          <th scope="col">Day</th>
          <th scope="col" className="number">
            Used
          </th>
          <th scope="col" className="number">
            Balance at its end
          </th>
        </tr>
      </thead>
      <tbody>
        {days.map(({ day, used, balance }) => (
          <tr key={day}>
            <td>{localDate.format(new Date(`${day}T00:00:00`))}</td>
            <td className="number">{formatAmount(resource, used, charge)}</td>
            <td className="number">{formatAmount(resource, balance, charge)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
