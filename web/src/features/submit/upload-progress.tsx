import { useBlocker } from '@tanstack/react-router';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import { Bar } from '../../ui/bar.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { formatDuration } from '../../ui/format.ts';
import styles from './submit.module.css';
import type { SubmissionProgress } from './use-submission.ts';

/** The bar, speed and remaining time of a submission, with a button that cancels it. */
export function UploadProgress({
  progress,
  onCancel,
}: {
  progress: SubmissionProgress | undefined;
  onCancel: () => void;
}) {
  return (
    <div className={styles.upload}>
      {progress === undefined ? <p role="status">Submitting…</p> : <ProgressView progress={progress} />}
      <Button onClick={onCancel}>Cancel the submission</Button>
      <LeaveDialog />
    </div>
  );
}

function ProgressView({ progress }: { progress: SubmissionProgress }) {
  const { step, doneBytes, totalBytes, attempt } = progress;
  const isSent = step === 'sending' && doneBytes >= totalBytes;
  const amount = `${formatBytes(doneBytes)} of ${formatBytes(totalBytes)}`;
  const title = isSent
    ? 'Sent. The server checks the files…'
    : step === 'packing'
      ? 'Packing the files'
      : 'Sending the files';
  return (
    <>
      <p role="status">
        <strong>{title}</strong>
        {attempt > 1 && !isSent && ` again, because the connection was lost (attempt ${attempt})`}
      </p>
      <Bar label={`${title}: ${amount}`} max={totalBytes} parts={[{ value: doneBytes }]} />
      <p className="muted">
        {amount}
        {!isSent && describePace(progress)}
      </p>
    </>
  );
}

/** `, 12 MB/s, 20 s left` */
function describePace({ doneBytes, totalBytes, startedAt }: SubmissionProgress): string {
  const seconds = (performance.now() - startedAt) / 1000;
  if (seconds < 0.5 || doneBytes === 0) return '';
  const bytesPerSecond = doneBytes / seconds;
  const secondsLeft = Math.max(1, (totalBytes - doneBytes) / bytesPerSecond);
  return `, ${formatBytes(bytesPerSecond)}/s, ${formatDuration(secondsLeft)} left`;
}

/** Asks before the page is left while a submission is under way. */
function LeaveDialog() {
  const blocker = useBlocker({ shouldBlockFn: () => true, enableBeforeUnload: true, withResolver: true });
  const isOpen = blocker.status === 'blocked';
  return (
    <Dialog
      title="Leave while the job is being submitted?"
      isOpen={isOpen}
      onClose={() => blocker.reset?.()}
      actions={
        <>
          <Button onClick={() => blocker.reset?.()}>Stay</Button>
          <Button variant="danger" onClick={() => blocker.proceed?.()}>
            Cancel the submission and leave
          </Button>
        </>
      }
    >
      <p>The files are still being sent. If you leave, the job is not submitted.</p>
    </Dialog>
  );
}
