import type { BursarEvent } from '@bursar/client';
import { useNavigate } from '@tanstack/react-router';
import { useEffect } from 'react';
import { areNotificationsOn, readNotificationChoice } from '../client/notification-choice.ts';
import { onEvent } from '../client/use-live-events.ts';
import { jobName } from '../shared/job-name.ts';
import { pageParamsOf } from '../shared/job-path.ts';
import { outcomeTexts } from '../shared/outcome-texts.ts';
import { systemName } from '../shared/system-name.ts';

/** Shows a notification of the browser when a job ends, if the user has chosen so. A click on it opens the job. */
export function useNotifications(): void {
  const navigate = useNavigate();
  useEffect(() => {
    const stop = onEvent(({ type, job, data }) => {
      if (type !== 'job.ended' || !job || !areNotificationsOn()) return;
      if (readNotificationChoice() === 'failed' && !job.failed) return;
      // All tabs of this browser show the same tag once.
      const notification = new Notification(titleOf(job), { body: bodyOf(job, data), tag: job.job_id });
      notification.onclick = () => {
        window.focus();
        notification.close();
        void navigate({ to: '/jobs/$hpc/$project/$jobId', params: pageParamsOf(job) });
      };
    });
    return () => stop();
  }, [navigate]);
}

type EndedJob = NonNullable<BursarEvent['job']>;

const titleOf = (job: EndedJob) => `${jobName(job)} ${job.failed ? 'failed' : 'has ended'}`;

const bodyOf = (job: EndedJob, { outcome, reason }: BursarEvent['data']) =>
  [`${systemName(job)} · ${job.project_name}`, outcome && outcomeTexts[outcome], reason].filter(Boolean).join('\n');
