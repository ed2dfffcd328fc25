import type { Quote, System } from '@bursar/client';
import type { UseQueryResult } from '@tanstack/react-query';
import { useId } from 'react';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { describeError } from '../../ui/states.tsx';
import { QuoteView } from './quote-view.tsx';
import styles from './submit.module.css';
import { UploadProgress } from './upload-progress.tsx';
import type { useSubmission } from './use-submission.ts';

interface SubmitCardProps {
  system: System;
  quote: UseQueryResult<Quote>;
  isFormValid: boolean;
  left: { time: number; space: number } | undefined;
  unpackedBytes: number;
  /** The reasons why the job cannot be submitted. */
  obstacles: readonly string[];
  submission: ReturnType<typeof useSubmission>;
  onRuntime: (hours: string) => void;
}

/** The cost, and the button. A disabled button says why. */
export function SubmitCard({ obstacles, submission, ...quote }: SubmitCardProps) {
  const reasonsId = useId();
  const { isBusy, progress, error, cancel } = submission;
  return (
    <Card title="Cost" className={styles.aside ?? ''}>
      <div className="stack">
        <QuoteView {...quote} />
        {isBusy ? (
          <UploadProgress progress={progress} onCancel={cancel} />
        ) : (
          <Button
            type="submit"
            variant="primary"
            className={styles.submit ?? ''}
            disabled={obstacles.length > 0}
            aria-describedby={obstacles.length > 0 ? reasonsId : undefined}
          >
            Submit the job
          </Button>
        )}
        {obstacles.length > 0 && !isBusy && (
          <div id={reasonsId}>
            <p className="muted">Before you can submit:</p>
            <ul className={styles.reasons}>
              {obstacles.map((reason) => (
                <li key={reason}>{reason}</li>
              ))}
            </ul>
          </div>
        )}
        {error !== null && !isBusy && <SubmissionError error={error} obstacles={obstacles} />}
      </div>
    </Card>
  );
}

/** A reason that still holds is among the obstacles already. */
function SubmissionError({ error, obstacles }: { error: unknown; obstacles: readonly string[] }) {
  const { message, requestId } = describeError(error);
  return (
    <div role="alert" className={styles.bad}>
      <p>
        <strong>The job was not submitted.</strong> {!obstacles.includes(message) && message}
      </p>
      {requestId !== undefined && (
        <p className="muted">
          Request <code>{requestId}</code>
        </p>
      )}
    </div>
  );
}
