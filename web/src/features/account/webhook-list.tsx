import type { Webhook } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import styles from './account.module.css';
import { accountKeys, webhooksQuery } from './queries.ts';
import { SecretDialog } from './secret-dialog.tsx';
import { CreateWebhookDialog } from './webhook-form.tsx';
import { WebhookState } from './webhook-state.tsx';

/** URLs that receive the events of the user. */
export function WebhookList() {
  const webhooks = useQuery(webhooksQuery);
  const queryClient = useQueryClient();
  const [isCreating, setCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  return (
    <Card
      title="Webhooks"
      actions={
        <Button variant="primary" onClick={() => setCreating(true)}>
          Create a webhook
        </Button>
      }
    >
      <div className="stack">
        <p className="muted">
          Bursar sends each event of your jobs and quotas to your URL, signed with a secret that only you know.
        </p>
        <QueryView query={webhooks}>{(list) => <WebhookTable webhooks={list} />}</QueryView>
      </div>
      <CreateWebhookDialog
        isOpen={isCreating}
        onClose={() => setCreating(false)}
        onCreated={(created) => {
          setCreating(false);
          setSecret(created);
          void queryClient.invalidateQueries({ queryKey: accountKeys.webhooks });
        }}
      />
      <WebhookSecretDialog secret={secret} onClose={() => setSecret(undefined)} />
    </Card>
  );
}

export function WebhookSecretDialog({ secret, onClose }: { secret: string | undefined; onClose: () => void }) {
  return (
    <SecretDialog title="The secret of the webhook" label="Secret" secret={secret} onClose={onClose}>
      Give it to the program that receives the events. With it, the program checks that they come from Bursar.
    </SecretDialog>
  );
}

function WebhookTable({ webhooks }: { webhooks: readonly Webhook[] }) {
  if (webhooks.length === 0) {
    return <EmptyState title="No webhooks">Create one to tell a program of yours when a job ends.</EmptyState>;
  }
  return (
    <Table label="Your webhooks">
      <thead>
        <tr>
          <th scope="col">URL</th>
          <th scope="col">State</th>
          <th scope="col">Events</th>
          <th scope="col">Created</th>
        </tr>
      </thead>
      <tbody>
        {webhooks.map((webhook) => (
          <tr key={webhook.id}>
            <td className={styles.url}>
              <Link to="/account/webhooks/$webhookId" params={{ webhookId: String(webhook.id) }}>
                {webhook.url}
              </Link>
              {webhook.description !== '' && <div className="muted">{webhook.description}</div>}
            </td>
            <td>
              <WebhookState webhook={webhook} />
            </td>
            <td className={styles.scopes}>{webhook.events.includes('*') ? 'all' : webhook.events.join(', ')}</td>
            <td>
              <Time value={webhook.created_at} form="date" />
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
