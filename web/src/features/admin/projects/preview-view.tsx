import { type ChargeUnit, formatAmount, type Resource } from '../../../shared/amount.ts';
import styles from '../admin.module.css';
import type { Preview } from './grant-preview.ts';

interface PreviewViewProps {
  /** Undefined until the fields hold a change. */
  preview: Preview | undefined;
  resource: Resource;
  charge: ChargeUnit;
}

/** The free amounts before and after a change that is not sent yet. Its place is kept while there is none. */
export function PreviewView({ preview, resource, charge }: PreviewViewProps) {
  const format = (amount: number) => formatAmount(resource, amount, charge);
  return (
    <div className={styles.preview} role="status" aria-label="Preview of the effect">
      <strong>Effect</strong>
      {preview === undefined ? (
        <p className="muted">Enter an amount to see the free amounts before and after.</p>
      ) : (
        <ul>
          {preview.lines.map(({ label, before, after }) => (
            <li key={label}>
              {label}: {format(before)} → <strong>{format(after)}</strong>{' '}
              <span className="muted">
                ({after < before ? '−' : '+'}
                {format(Math.abs(after - before))})
              </span>
            </li>
          ))}
        </ul>
      )}
      {preview?.problem !== undefined && (
        <p className={styles.problem}>
          {preview.problem.text}: {format(preview.problem.available)}.
        </p>
      )}
    </div>
  );
}

/** The free amounts after a change, for the message of its success. */
export function describeAccounts(
  accounts: readonly { user: string | null; resource: Resource; available: number }[],
  charge: ChargeUnit,
): string {
  return accounts
    .map(({ user, resource, available }) => {
      const name = user === null ? 'pool' : `user ${user}`;
      return `${name}: ${formatAmount(resource, available, charge)} free`;
    })
    .join(' · ');
}
