import type { LedgerVerification } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { formatCharge } from '../../../../src/domain/format-amount.ts';
import { bursar } from '../../client/bursar.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card, DescriptionList, PageHeader } from '../../ui/card.tsx';
import { formatCount, formatNumber } from '../../ui/format.ts';
import { ErrorState } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { usePermissions } from './use-permissions.ts';

/** Adds up the ledger when asked, because that takes seconds in a large one, and remembers the result until then only. */
export function LedgerPage() {
  const may = usePermissions();
  const verification = useQuery({
    queryKey: ['admin-ledger-verification'],
    queryFn: async ({ signal }) => {
      const startedAt = Date.now();
      const result = await bursar.api.verifyLedger({ signal });
      return { ...result, at: new Date().toISOString(), seconds: (Date.now() - startedAt) / 1000 };
    },
    // The page of a user without the right asks at once, and shows the refusal of the server, which says who may.
    enabled: !may('ledger.verify'),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: false,
  });
  return (
    <>
      <PageHeader
        title="Ledger"
        description="The verification adds up all entries, and compares the sums with every balance, hold and monthly usage."
        actions={
          may('ledger.verify') && (
            <Button variant="primary" isBusy={verification.isFetching} onClick={() => void verification.refetch()}>
              {verification.isFetching ? 'Checking…' : 'Verify the ledger'}
            </Button>
          )
        }
      />
      <div aria-live="polite" aria-busy={verification.isFetching}>
        <Card>
          {verification.isError ? (
            <ErrorState error={verification.error} onRetry={() => void verification.refetch()} />
          ) : (
            <VerificationResult verification={verification.data} isRunning={verification.isFetching} />
          )}
        </Card>
      </div>
    </>
  );
}

interface VerificationResultProps {
  verification: (LedgerVerification & { at: string; seconds: number }) | undefined;
  isRunning: boolean;
}

function VerificationResult({ verification, isRunning }: VerificationResultProps) {
  if (verification === undefined) {
    return (
      <p className="muted">
        {isRunning
          ? 'Adding up all entries…'
          : 'Not checked since this page was opened. Verify the ledger: it blocks nobody, and takes seconds in a large ledger.'}
      </p>
    );
  }
  const { balanced, accounts, entries, problems, at, seconds } = verification;
  return (
    <div className="stack">
      <DescriptionList
        items={[
          [
            'Result',
            <Badge key="result" tone={balanced ? 'good' : 'bad'}>
              {balanced ? 'Balanced' : formatCount(problems.length, 'problem')}
            </Badge>,
          ],
          ['Checked', <Time key="at" value={at} />],
          ['Accounts', formatNumber(accounts)],
          ['Entries', formatNumber(entries)],
          ['Took', formatCharge(seconds, 'wall')],
        ]}
      />
      {problems.length > 0 && (
        <div>
          <h2>Problems</h2>
          <ul>
            {problems.map((problem) => (
              <li key={problem}>{problem}</li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
