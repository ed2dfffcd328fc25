import type { Me, Token } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { Badge, type Tone } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { HiddenColumnHeader, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import styles from './account.module.css';
import { CreateTokenDialog } from './create-token-dialog.tsx';
import { accountKeys, tokensQuery } from './queries.ts';
import { SecretDialog } from './secret-dialog.tsx';

const stateTones: Record<Token['state'], Tone> = { valid: 'good', expired: 'neutral', revoked: 'neutral' };

/** The tokens of the user: for programs, which cannot sign in. */
export function TokenList({ me }: { me: Me }) {
  const tokens = useQuery(tokensQuery);
  const queryClient = useQueryClient();
  const [isCreating, setCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const [revoked, setRevoked] = useState<Token>();
  const [showsAll, setShowsAll] = useState(false);

  const refresh = () => queryClient.invalidateQueries({ queryKey: accountKeys.tokens });
  const revoke = async () => {
    if (revoked === undefined) return;
    await bursar.api.revokeToken({ path: { token_id: revoked.id } });
    toast.show(`The token ${revoked.name} is revoked`);
    await refresh();
  };

  return (
    <Card
      title="Tokens"
      actions={
        <Button variant="primary" onClick={() => setCreating(true)}>
          Create a token
        </Button>
      }
    >
      <div className="stack">
        <p className="muted">
          A token lets a program act for you. Send it as <code>Authorization: Bearer …</code>, or keep it in the
          variable <code>BURSAR_TOKEN</code>.
        </p>
        <QueryView query={tokens}>
          {(list) => {
            const valid = list.filter(({ state }) => state === 'valid');
            return (
              <>
                <TokenTable tokens={showsAll ? list : valid} onRevoke={setRevoked} />
                {list.length > valid.length && (
                  <label className={styles.check}>
                    <input type="checkbox" checked={showsAll} onChange={(event) => setShowsAll(event.target.checked)} />
                    Show expired and revoked tokens ({list.length - valid.length})
                  </label>
                )}
              </>
            );
          }}
        </QueryView>
      </div>
      <CreateTokenDialog
        me={me}
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        onCreated={(token) => {
          setCreating(false);
          setSecret(token);
          void refresh();
        }}
      />
      <SecretDialog title="Your new token" label="Token" secret={secret} onClose={() => setSecret(undefined)}>
        Copy it now, and keep it like a password: everybody who has it can act for you.
      </SecretDialog>
      <ConfirmDialog
        title={`Revoke the token ${revoked?.name ?? ''}?`}
        confirmLabel="Revoke"
        isDangerous
        isOpen={revoked !== undefined}
        onClose={() => setRevoked(undefined)}
        onConfirm={revoke}
      >
        Programs that use it are refused at once. This cannot be undone.
      </ConfirmDialog>
    </Card>
  );
}

function TokenTable({ tokens, onRevoke }: { tokens: readonly Token[]; onRevoke: (token: Token) => void }) {
  if (tokens.length === 0) {
    return (
      <EmptyState title="No valid tokens">Create one for a program, such as a notebook or a script in cron.</EmptyState>
    );
  }
  return (
    <Table label="Your tokens">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">State</th>
          <th scope="col">May</th>
          <th scope="col">Expires</th>
          <th scope="col">Last used</th>
          <HiddenColumnHeader>Actions</HiddenColumnHeader>
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <tr key={token.id}>
            <td className={styles.name}>{token.name}</td>
            <td>
              <Badge tone={stateTones[token.state]}>{token.state}</Badge>
            </td>
            <td className={styles.scopes}>
              {token.scopes.join(', ')}
              {token.hpc !== null && (
                <span className="muted">
                  {' '}
                  only on {token.hpc}
                  {token.project_name !== null && `, ${token.project_name}`}
                </span>
              )}
            </td>
            <td>{token.expires_at === null ? 'never' : <Time value={token.expires_at} form="date" />}</td>
            <td>{lastUse(token)}</td>
            <td>
              {token.state === 'valid' && (
                <Button variant="danger" aria-label={`Revoke ${token.name}`} onClick={() => onRevoke(token)}>
                  Revoke
                </Button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function lastUse({ last_used_on: day, last_used_from: address }: Token) {
  if (day === null) return <span className="muted">never</span>;
  return (
    <>
      {/* Only the day is known, in UTC: a local time could show the day before. */}
      <span title="UTC">{day}</span> {address !== null && <span className="muted">from {address}</span>}
    </>
  );
}
