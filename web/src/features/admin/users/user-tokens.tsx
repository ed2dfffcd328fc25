import type { Token } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { Badge, type Tone } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { ConfirmDialog } from '../../../ui/confirm-dialog.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { HiddenColumnHeader, Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import { toast } from '../../../ui/toast.tsx';
import styles from '../admin.module.css';
import { userTokensQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';

const stateTones: Record<Token['state'], Tone> = { valid: 'good', expired: 'neutral', revoked: 'neutral' };

/** The tokens of a user, which operators and administrators can revoke. */
export function UserTokens({ userId }: { userId: string }) {
  const tokens = useQuery(userTokensQuery(userId));
  const queryClient = useQueryClient();
  const mayRevoke = usePermissions()('tokens.write');
  const [toRevoke, setToRevoke] = useState<Token | 'all'>();
  const hasValid = tokens.data?.some(({ state }) => state === 'valid') ?? false;

  const revoke = async () => {
    if (toRevoke === 'all') await bursar.api.revokeTokensOfUser({ path: { user_id: userId } });
    else if (toRevoke !== undefined)
      await bursar.api.revokeTokenOfUser({ path: { user_id: userId, token_id: toRevoke.id } });
    await queryClient.invalidateQueries({ queryKey: userTokensQuery(userId).queryKey });
    toast.show(toRevoke === 'all' ? 'All tokens are revoked' : 'The token is revoked');
  };

  return (
    <Card
      title="Tokens"
      actions={mayRevoke && hasValid && <Button onClick={() => setToRevoke('all')}>Revoke all</Button>}
    >
      <QueryView query={tokens} loading={<SkeletonLines count={3} />}>
        {(list) =>
          list.length === 0 ? (
            <p className="muted">This user has no tokens.</p>
          ) : (
            <TokenTable tokens={list} onRevoke={mayRevoke ? setToRevoke : undefined} />
          )
        }
      </QueryView>
      <ConfirmDialog
        title={toRevoke === 'all' ? 'Revoke all tokens' : 'Revoke a token'}
        confirmLabel="Revoke"
        isDangerous
        isOpen={toRevoke !== undefined}
        onClose={() => setToRevoke(undefined)}
        onConfirm={revoke}
      >
        {toRevoke === 'all'
          ? 'All programs of this user stop working at once. The user can create new tokens.'
          : `Programs that use ${nameOf(toRevoke)} stop working at once.`}{' '}
        This cannot be undone.
      </ConfirmDialog>
    </Card>
  );
}

const nameOf = (token: Token | undefined) => (token?.name ? `“${token.name}”` : `token ${token?.id ?? ''}`);

function TokenTable({
  tokens,
  onRevoke,
}: {
  tokens: readonly Token[];
  onRevoke: ((token: Token) => void) | undefined;
}) {
  return (
    <Table label="List of tokens">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col">Scopes</th>
          <th scope="col">Last used</th>
          <th scope="col">Expires</th>
          {onRevoke && <HiddenColumnHeader>Actions</HiddenColumnHeader>}
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <tr key={token.id}>
            <td>
              {token.name || <span className="muted">without a name</span>}
              <span className={styles.cellNote}>No. {token.id}</span>
            </td>
            <td>
              <Badge tone={stateTones[token.state]}>{token.state}</Badge>
            </td>
            <td>
              {token.scopes.join(', ')}
              {token.hpc !== null && (
                <span className={styles.cellNote}>
                  only {token.hpc}
                  {token.project_name === null ? '' : `/${token.project_name}`}
                </span>
              )}
            </td>
            <td>
              {/* Only the day is known, in UTC: a local time could show the day before. */}
              <span title="UTC">{token.last_used_on ?? 'never'}</span>
              {token.last_used_from !== null && <span className={styles.cellNote}>from {token.last_used_from}</span>}
            </td>
            <td>{token.expires_at === null ? 'never' : <Time value={token.expires_at} form="date" />}</td>
            {onRevoke && (
              <td>
                <div className={styles.rowActions}>
                  {token.state === 'valid' && (
                    <Button aria-label={`Revoke ${nameOf(token)}`} onClick={() => onRevoke(token)}>
                      Revoke
                    </Button>
                  )}
                </div>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
