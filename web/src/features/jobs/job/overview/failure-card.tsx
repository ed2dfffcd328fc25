import type { Timeline } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { buttonClass } from '../../../../ui/button.tsx';
import { Card, DescriptionList } from '../../../../ui/card.tsx';
import { Link } from '../../../../ui/link.tsx';
import { Preformatted } from '../../../../ui/preformatted.tsx';
import { Skeleton } from '../../../../ui/states.tsx';
import type { JobSource } from '../job-source.ts';
import { lastLinesQuery } from '../log/last-lines.ts';
import { failureAdvice } from './failure-advice.ts';
import styles from './failure-card.module.css';

/** Says why the job failed, in plain words and in those of the system, and what the user can try. */
export function FailureCard({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const end = timeline.entries.findLast(({ type }) => type === 'job.ended');
  const { cause, advice, mayHelpToResubmit } = failureAdvice(end?.outcome ?? 'failed', timeline);
  const { hpc, project_name: project, job_id: jobId } = source.path;
  return (
    <Card title="Why it failed" className={styles.card ?? ''}>
      <div className="stack">
        <p className={styles.cause}>{cause}</p>
        <DescriptionList
          items={[
            ...(end?.reason && end.reason !== `exit code ${end.exit_code}` ? [['Reason', end.reason] as const] : []),
            ...(end?.scheduler_message ? [['The system says', end.scheduler_message] as const] : []),
            ...(end?.exit_code == null ? [] : [['Exit code', String(end.exit_code)] as const]),
          ]}
        />
        <LastLines source={source} timeline={timeline} />
        <div>
          <h3>What to try</h3>
          <ul className={styles.advice}>
            {advice.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </div>
        {mayHelpToResubmit && !source.isAdmin && (
          <p>
            <Link className={buttonClass()} to="/submit" search={{ from: `${hpc}/${project}/${jobId}` }}>
              Change it and submit again
            </Link>
          </p>
        )}
      </div>
    </Card>
  );
}

/** The end of stderr, or of stdout if that is empty: there the program says what happened. */
function LastLines({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const isDeleted = timeline.entries.some(({ type }) => type === 'job.deleted');
  const lines = useQuery({ ...lastLinesQuery(source), enabled: timeline.started_at !== null && !isDeleted });
  if (lines.isLoading) return <Skeleton height="8rem" />;
  if (lines.data === undefined || lines.data.text === '') return null;
  const { stream, text } = lines.data;
  return (
    <div>
      <div className={styles.linesHeader}>
        <h3>
          Last lines of <code>{stream}</code>
        </h3>
        <Link
          from="/jobs/$hpc/$project/$jobId"
          to="."
          search={(search) => ({ ...search, tab: 'log', stream: stream === 'stderr' ? stream : undefined })}
        >
          Open the log
        </Link>
      </div>
      <Preformatted text={text} maxHeight="16rem" />
    </div>
  );
}
