import type { Quote, System } from '@bursar/client';
import type { UseQueryResult } from '@tanstack/react-query';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import { formatAmount } from '../../shared/amount.ts';
import { Button } from '../../ui/button.tsx';
import { formatDuration } from '../../ui/format.ts';
import { formatHours } from './form/runtime-text.ts';
import styles from './submit.module.css';

interface QuoteViewProps {
  quote: UseQueryResult<Quote>;
  system: System;
  /** The quota that is left before this job, in charged seconds and KB. Undefined while it is loading. */
  left: { time: number; space: number } | undefined;
  unpackedBytes: number;
  isFormValid: boolean;
  onRuntime: (hours: string) => void;
}

/**
 * The cost of the job as it is typed: `costs at most 24 core-h of 5,000 core-h; leaves 4,980 core-h; space 120 MB`. The reasons
 * of a refusal are below it, among all that keeps the job from being submitted.
 */
export function QuoteView({ quote, system, left, unpackedBytes, isFormValid, onRuntime }: QuoteViewProps) {
  const { data } = quote;
  if (!isFormValid) return <Unknown>The cost is shown when the form is complete.</Unknown>;
  if (quote.isError) return <Unknown>The cost is not known.</Unknown>;
  if (data === undefined) return <Unknown>Calculating the cost…</Unknown>;
  const amount = (seconds: number) => formatAmount('time', seconds, system.charge);
  const canShorten = !data.accepted && data.binding_account !== null && data.longest_runtime > 0;
  return (
    <div className={styles.quote} aria-busy={quote.isPlaceholderData}>
      <p role="status">
        Costs at most <strong>{amount(data.cost)}</strong>
        {left !== undefined && ` of ${amount(left.time)}`}
        {data.accepted && `; leaves ${amount(data.time_left)}`}
        {unpackedBytes > 0 && `; space ${formatBytes(unpackedBytes)}`}
        {unpackedBytes > 0 && left !== undefined && ` of ${formatAmount('space', left.space)}`}.
      </p>
      <p className="muted">
        For {formatDuration(data.runtime * 3600)} at most. Time that the job does not use is given back.
      </p>
      {canShorten ? (
        <Button onClick={() => onRuntime(formatHours(data.longest_runtime))}>
          Use the longest runtime: {formatDuration(data.longest_runtime * 3600)}
        </Button>
      ) : (
        data.accepted && (
          <p className="muted">
            The quota and the system allow {formatDuration(data.longest_runtime * 3600)}.{' '}
            {data.longest_runtime > data.runtime && (
              <button
                type="button"
                className={styles.link}
                onClick={() => onRuntime(formatHours(data.longest_runtime))}
              >
                Use all of it
              </button>
            )}
          </p>
        )
      )}
    </div>
  );
}

function Unknown({ children }: { children: string }) {
  return <p className={`muted ${styles.quote}`}>{children}</p>;
}
