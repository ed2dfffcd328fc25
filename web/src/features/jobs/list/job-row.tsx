import type { JobSummary, System } from '@bursar/client';
import type { KeyboardEvent } from 'react';
import { calculateCostSeconds } from '../../../../../src/domain/accounting/charge.ts';
import type { JobPageFilter } from '../../../client/job-pages.ts';
import { formatAmount } from '../../../shared/amount.ts';
import { jobName } from '../../../shared/job-name.ts';
import { pageParamsOf } from '../../../shared/job-path.ts';
import { outcomeTexts } from '../../../shared/outcome-texts.ts';
import { StageBadge } from '../../../shared/stage-badge.tsx';
import { systemName } from '../../../shared/system-name.ts';
import { Link } from '../../../ui/link.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from './job-list.module.css';
import { JobTime } from './job-time.tsx';
import type { ListRoute } from './list-route.ts';

interface JobRowProps {
  summary: JobSummary;
  route: ListRoute;
  /** The filters of the list. Its links add others. */
  filter: JobPageFilter;
  /** The system of the job, which says what time is charged. */
  system: System | undefined;
  /** The job belongs to another user. */
  isOfOther: boolean;
  isSelected: boolean;
  onSelect: (isSelected: boolean, isRange: boolean) => void;
}

export function JobRow({ summary, route, filter, system, isOfOther, isSelected, onSelect }: JobRowProps) {
  const { job, tags, outcome } = summary;
  return (
    <tr className={isSelected ? styles.selected : ''}>
      <td className={styles.select}>
        <input
          type="checkbox"
          aria-label={`Select ${jobName(job)}`}
          checked={isSelected}
          onChange={(event) => onSelect(event.target.checked, (event.nativeEvent as MouseEvent).shiftKey)}
          onKeyDown={moveToNextRow}
        />
      </td>
      <td className={styles.job}>
        <Link
          className={styles.title}
          to="/jobs/$hpc/$project/$jobId"
          params={pageParamsOf(job)}
          search={isOfOther ? { admin: true } : {}}
        >
          {jobName(job)}
        </Link>
        <div className={styles.origin}>
          <span>
            {systemName(job)} · {job.project_name}
          </span>
          {tags.map((tag) => (
            <Link
              key={tag}
              to={route}
              search={{ ...filter, tag, cursor: undefined }}
              className={styles.tag}
              aria-label={`Only jobs with the tag ${tag}`}
            >
              {tag}
            </Link>
          ))}
        </div>
      </td>
      {route === '/admin/jobs' && (
        <td className={styles.user}>
          <Link to={route} search={{ ...filter, user: job.owner, cursor: undefined }}>
            {job.owner}
          </Link>
        </td>
      )}
      <td className={styles.stage}>
        <StageBadge job={job} />
        {job.failed && outcome !== null && outcome !== 'failed' && (
          <div className={styles.outcome}>{outcomeTexts[outcome]}</div>
        )}
      </td>
      <td className={styles.timeCell}>
        <JobTime summary={summary} />
      </td>
      <td className={`${styles.cost} number`}>
        <JobCost summary={summary} system={system} />
      </td>
      <td className={styles.submitted}>
        <Time value={job.init_date} form="relative" />
      </td>
    </tr>
  );
}

function JobCost({ summary, system }: Pick<JobRowProps, 'summary' | 'system'>) {
  const { job, nodes, cores_per_node: coresPerNode, charged_seconds: chargedSeconds } = summary;
  if (chargedSeconds !== null) return formatAmount('time', chargedSeconds, system?.charge);
  if (job.terminal_stage || system === undefined) return <span className="muted">–</span>;
  const heldSeconds = calculateCostSeconds({ nodes, coresPerNode }, job.runtime, system.charge);
  return (
    <span className="muted" title="Held until the job ends. Time that it does not use is given back.">
      up to {formatAmount('time', heldSeconds, system.charge)}
    </span>
  );
}

/** The arrow keys move between the rows; with shift they also select the row. */
function moveToNextRow(event: KeyboardEvent<HTMLInputElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  const boxes = [
    ...(event.currentTarget.closest('tbody')?.querySelectorAll<HTMLInputElement>('[type=checkbox]') ?? []),
  ];
  const next = boxes[boxes.indexOf(event.currentTarget) + step];
  next?.focus();
  if (event.shiftKey && next?.checked === false) next.click();
}
