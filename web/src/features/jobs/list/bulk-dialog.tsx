import type { Job } from '@bursar/client';
import { useRef, useState } from 'react';
import { jobName } from '../../../shared/job-name.ts';
import { systemName } from '../../../shared/system-name.ts';
import { Bar } from '../../../ui/bar.tsx';
import { Button } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { TextField } from '../../../ui/field.tsx';
import { formatCount } from '../../../ui/format.ts';
import { describeError } from '../../../ui/states.tsx';
import { toast } from '../../../ui/toast.tsx';
import styles from './bulk-dialog.module.css';
import { type BulkFailure, type BulkKind, type BulkPlan, runBulkAction } from './bulk-plan.ts';

interface BulkDialogProps {
  plan: BulkPlan | undefined;
  /** The jobs may belong to others, who are told why. */
  asksReason: boolean;
  send: (kind: BulkKind, job: Job, reason: string) => Promise<unknown>;
  onClose: () => void;
  /** Called when requests have been sent, whether or not all have succeeded. */
  onDone: () => void;
}

const texts = {
  cancel: { title: 'Cancel jobs', button: 'Cancel', progress: 'Cancelling', done: 'Cancelling' },
  delete: {
    title: 'Delete files of jobs',
    button: 'Delete files of',
    progress: 'Deleting',
    done: 'Deleted the files of',
  },
} as const;

/** Says what will happen to the selected jobs, does it, and says what has failed. */
export function BulkDialog({ plan, asksReason, send, onClose, onDone }: BulkDialogProps) {
  // The text stays while the window closes.
  const [shown, setShown] = useState<BulkPlan>({ kind: 'cancel', jobs: [], skipped: [] });
  const [reason, setReason] = useState('');
  const [doneCount, setDoneCount] = useState<number>();
  const [failures, setFailures] = useState<readonly BulkFailure[]>([]);
  const abort = useRef<AbortController>(undefined);
  if (plan !== undefined && plan !== shown) {
    setShown(plan);
    setFailures([]);
    setReason('');
  }
  const isBusy = doneCount !== undefined;
  const jobs = failures.length > 0 ? failures.map(({ job }) => job) : shown.jobs;
  const { title, button, progress, done } = texts[shown.kind];

  const run = async () => {
    abort.current = new AbortController();
    const { signal } = abort.current;
    let sentCount = 0;
    const onProgress = (count: number) => {
      sentCount = count;
      setDoneCount(count);
    };
    setDoneCount(0);
    const failed = await runBulkAction(jobs, (job) => send(shown.kind, job, reason.trim()), { signal, onProgress });
    setDoneCount(undefined);
    setFailures(failed);
    onDone();
    const stopped =
      sentCount < jobs.length
        ? `Stopped: ${formatCount(jobs.length - sentCount, 'job')} left as they were.`
        : undefined;
    if (sentCount > failed.length) toast.show(`${done} ${formatCount(sentCount - failed.length, 'job')}`, stopped);
    if (failed.length === 0) onClose();
  };

  return (
    <Dialog
      title={title}
      isOpen={plan !== undefined}
      onClose={() => !isBusy && onClose()}
      actions={
        isBusy ? (
          <Button onClick={() => abort.current?.abort()}>Stop</Button>
        ) : (
          <>
            <Button onClick={onClose}>{failures.length > 0 ? 'Close' : 'Back'}</Button>
            {jobs.length > 0 && (
              <Button variant="danger" disabled={asksReason && reason.trim() === ''} onClick={() => void run()}>
                {failures.length > 0 ? 'Try again' : `${button} ${formatCount(jobs.length, 'job')}`}
              </Button>
            )}
          </>
        )
      }
    >
      <div className="stack">
        {failures.length > 0 ? <Failures failures={failures} /> : <PlanText plan={shown} />}
        {asksReason && jobs.length > 0 && (
          <TextField
            label="Reason"
            hint="The owners of the jobs see it. It is recorded."
            value={reason}
            disabled={isBusy}
            onChange={(event) => setReason(event.target.value)}
          />
        )}
        {isBusy && (
          <div role="status">
            {progress} {doneCount} of {jobs.length}
            <Bar label={`${doneCount} of ${jobs.length}`} max={jobs.length} parts={[{ value: doneCount }]} />
          </div>
        )}
      </div>
    </Dialog>
  );
}

function PlanText({ plan: { kind, jobs, skipped } }: { plan: BulkPlan }) {
  const count = formatCount(jobs.length, 'job');
  return (
    <>
      <div>
        {jobs.length === 0 && <p>No selected job can be {kind === 'cancel' ? 'cancelled' : 'deleted'}.</p>}
        {jobs.length > 0 && kind === 'cancel' && (
          <p>
            <strong>{count}</strong> will be cancelled. Time that was used is charged, the rest is given back. The files
            stay.
          </p>
        )}
        {jobs.length > 0 && kind === 'delete' && (
          <p>
            The files of <strong>{count}</strong> will be deleted, with their logs. This cannot be undone. The jobs and
            their costs stay in the list.
          </p>
        )}
        <JobNames jobs={jobs} />
      </div>
      {skipped.map(({ reason, jobs: skippedJobs }) => (
        <div key={reason}>
          <p>
            {formatCount(skippedJobs.length, 'job')} skipped: {reason}.
          </p>
          <JobNames jobs={skippedJobs} />
        </div>
      ))}
    </>
  );
}

/** More names than these help nobody. */
const maxNames = 5;

function JobNames({ jobs }: { jobs: readonly Job[] }) {
  if (jobs.length === 0) return null;
  return (
    <ul className={styles.names}>
      {jobs.slice(0, maxNames).map((job) => (
        <li key={job.id}>
          {jobName(job)} <span className="muted">· {systemName(job)}</span>
        </li>
      ))}
      {jobs.length > maxNames && <li className="muted">and {jobs.length - maxNames} more</li>}
    </ul>
  );
}

function Failures({ failures }: { failures: readonly BulkFailure[] }) {
  return (
    <div role="alert">
      <p>This has failed for {formatCount(failures.length, 'job')}:</p>
      <ul className={styles.names}>
        {failures.map(({ job, error }) => (
          <li key={job.id}>
            <strong>{jobName(job)}</strong>: {describeError(error).message}
          </li>
        ))}
      </ul>
    </div>
  );
}
