import type { Timeline } from '@bursar/client';
import { jobName } from '../../../shared/job-name.ts';
import { StageBadge } from '../../../shared/stage-badge.tsx';
import { PageHeader } from '../../../ui/card.tsx';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { Time } from '../../../ui/time.tsx';
import { JobActions } from './job-actions.tsx';
import styles from './job-header.module.css';
import type { JobSource } from './job-source.ts';

export function JobHeader({ source, timeline }: { source: JobSource; timeline: Timeline }) {
  const { job } = timeline;
  const name = jobName(job);
  return (
    <>
      <PageHeader
        title={name}
        heading={
          <span className={styles.heading}>
            {name} <StageBadge job={job} />
          </span>
        }
        description={
          <span className={styles.metadata}>
            <span>
              {source.path.hpc} · {job.project_name}
            </span>
            {source.isAdmin && <span>User {job.owner}</span>}
            <span>
              Submitted <Time value={job.init_date} />
            </span>
          </span>
        }
        actions={<JobActions source={source} timeline={timeline} />}
      />
      <div className={styles.id}>
        <code>{job.job_id}</code>
        <CopyButton text={job.job_id} label="Copy the id" />
      </div>
    </>
  );
}
