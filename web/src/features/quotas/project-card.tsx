import { useQuery } from '@tanstack/react-query';
import { type ChargeUnit, formatAmount } from '../../shared/amount.ts';
import { Badge } from '../../ui/badge.tsx';
import { Bar } from '../../ui/bar.tsx';
import { buttonClass } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import { Skeleton } from '../../ui/states.tsx';
import { Time, useNow } from '../../ui/time.tsx';
import type { ProjectQuotas, ResourceQuota } from './accounts.ts';
import { burnRateQuery, rateDays } from './queries.ts';
import styles from './quotas.module.css';

export function ProjectCard({ project }: { project: ProjectQuotas }) {
  const { hpc, name, charge, quotas } = project;
  const path = { hpc, project: name };
  const time = quotas.find(({ own }) => own.resource === 'time');
  return (
    <Card
      title={
        <>
          {name} <span className="muted">on {hpc}</span>
        </>
      }
    >
      <div className="stack">
        {quotas.map((quota) => (
          <Meter key={quota.own.resource} quota={quota} charge={charge} />
        ))}
        {time !== undefined && <Forecast time={time} path={path} charge={charge} />}
        <div className="row">
          <Link to="/quotas/$hpc/$project" params={path} className={buttonClass()}>
            Statement
          </Link>
          <Link to="/submit" search={path} className={buttonClass()}>
            Submit a job
          </Link>
        </div>
      </div>
    </Card>
  );
}

/** Less than this part is left: the card warns. */
const lowPart = 0.2;

const titles = { time: 'Time', space: 'Space' } as const;

function Meter({ quota, charge }: { quota: ResourceQuota; charge: ChargeUnit }) {
  const { resource, granted, held, used } = quota.own;
  const amount = (value: number) => formatAmount(resource, value, charge);
  const free = amount(quota.free);
  const isLow = quota.free < lowPart * granted || quota.free === 0;
  const isLimitedByPool = quota.free < quota.own.available;
  const label = `${titles[resource]}: ${amount(used)} used, ${amount(held)} held, ${free} free of ${amount(granted)}`;
  return (
    <div className={styles.meter}>
      <div className={styles.meterHead}>
        <h3>{titles[resource]}</h3>
        {isLow && (
          <Badge tone={quota.free === 0 ? 'bad' : 'warning'}>{quota.free === 0 ? 'Nothing left' : 'Little left'}</Badge>
        )}
      </div>
      <div>
        <span className={styles.free}>{free}</span>{' '}
        <span className="muted">
          free of <span className={styles.amount}>{amount(granted)}</span>
        </span>
      </div>
      <Bar
        label={label}
        max={granted}
        parts={[
          { value: used, tone: isLow ? 'warning' : 'info' },
          { value: held, tone: 'neutral' },
        ]}
      />
      <dl className={styles.parts}>
        <div>
          <dt className={isLow ? styles.usedLow : styles.used}>used</dt>
          <dd>{amount(used)}</dd>
        </div>
        <div>
          <dt className={styles.held}>held for jobs</dt>
          <dd>{amount(held)}</dd>
        </div>
      </dl>
      {isLimitedByPool && <p className={styles.note}>All members together have only this much left in the project.</p>}
    </div>
  );
}

interface ForecastProps {
  time: ResourceQuota;
  path: { hpc: string; project: string };
  charge: ChargeUnit;
}

/** A forecast of more than this counts as never. */
const maxForecastDays = 3650;

/** The period of the grant, and the day on which the time runs out if it is used as in the last weeks. */
function Forecast({ time, path, charge }: ForecastProps) {
  const rate = useQuery(burnRateQuery(path.hpc, path.project));
  return (
    <div className={styles.period}>
      <Period starts={time.own.starts} ends={time.own.ends} />
      <p>
        {rate.isPending && <Skeleton height="1.2em" width="70%" />}
        {rate.data !== undefined && <RunOut perDay={rate.data} time={time} charge={charge} />}
      </p>
    </div>
  );
}

function Period({ starts, ends }: Pick<ResourceQuota['own'], 'starts' | 'ends'>) {
  if (starts === null && ends === null) return null;
  return (
    <p className="muted">
      {ends === null ? 'Since' : 'Period'} <Time value={starts} form="date" />{' '}
      {ends === null ? (
        'without end'
      ) : (
        <>
          to <Time value={ends} form="date" />
        </>
      )}
    </p>
  );
}

function RunOut({ perDay, time, charge }: { perDay: number; time: ResourceQuota; charge: ChargeUnit }) {
  const now = useNow(undefined);
  const { ends } = time.own;
  if (perDay <= 0) return `Nothing was used in the last ${rateDays} days.`;
  const rateText = `${formatAmount('time', perDay, charge)} a day`;
  if (time.free === 0) return `It was used at ${rateText}. Ask for more, or wait until running jobs end.`;
  const days = time.free / perDay;
  const runsOutAt = now + days * 86_400_000;
  const lastsLonger = days > maxForecastDays || (ends !== null && runsOutAt > Date.parse(ends));
  if (lastsLonger) return `At ${rateText} it does not run out${ends === null ? '' : ' in this period'}.`;
  return (
    <>
      At {rateText} it runs out on <Time value={new Date(runsOutAt).toISOString()} form="date" />.
    </>
  );
}
