import type { Webhook } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { Button } from '../../ui/button.tsx';
import { Card, DescriptionList, PageHeader } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Link } from '../../ui/link.tsx';
import { QueryView } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import styles from './account.module.css';
import { DeliveryList } from './delivery-list.tsx';
import { accountKeys, webhookQuery } from './queries.ts';
import { WebhookForm } from './webhook-form.tsx';
import { WebhookSecretDialog } from './webhook-list.tsx';
import { WebhookState } from './webhook-state.tsx';

const route = getRouteApi('/account/webhooks/$webhookId');

export function WebhookPage() {
  const { webhookId } = route.useParams();
  const webhook = useQuery(webhookQuery(webhookId));
  return (
    <>
      <p className={styles.back}>
        <Link to="/account" search={{ tab: 'webhooks' }}>
          ← All webhooks
        </Link>
      </p>
      <PageHeader title="Webhook" heading={webhook.data?.url ?? 'Webhook'} description={webhook.data?.description} />
      <QueryView query={webhook}>
        {(data) => (
          <div className="stack">
            <WebhookCard webhook={data} />
            <DeliveryList webhookId={webhookId} />
          </div>
        )}
      </QueryView>
    </>
  );
}

type Action = 'change' | 'rotate' | 'delete';

function WebhookCard({ webhook }: { webhook: Webhook }) {
  const [action, setAction] = useState<Action>();
  const [secret, setSecret] = useState<string>();
  const refresh = useRefresh();
  const path = { webhook_id: webhook.id };
  const isLocked = webhook.disabled_by === 'administrator';

  const run = async (title: string, act: () => Promise<unknown>) => {
    try {
      await act();
      toast.show(title);
    } catch (error) {
      toast.fail('That did not work', error);
    }
    await refresh();
  };
  return (
    <Card
      title="State"
      actions={
        <>
          {!webhook.active && (
            <Button
              variant="primary"
              disabled={isLocked}
              onClick={() =>
                void run('The webhook is enabled', () => bursar.api.changeWebhook({ path, body: { active: true } }))
              }
            >
              Enable again
            </Button>
          )}
          <Button
            disabled={!webhook.active}
            onClick={() => void run('A test is being sent', () => bursar.api.testWebhook({ path }))}
          >
            Send a test
          </Button>
          <Button disabled={isLocked} onClick={() => setAction('change')}>
            Change
          </Button>
          <Button disabled={isLocked} onClick={() => setAction('rotate')}>
            New secret
          </Button>
          <Button variant="danger" disabled={isLocked} onClick={() => setAction('delete')}>
            Delete
          </Button>
        </>
      }
    >
      <WebhookProperties webhook={webhook} />
      <ChangeDialog webhook={webhook} isOpen={action === 'change'} onClose={() => setAction(undefined)} />
      <ConfirmDialog
        title="Make a new secret?"
        confirmLabel="Make a new secret"
        isOpen={action === 'rotate'}
        onClose={() => setAction(undefined)}
        onConfirm={async () => setSecret((await bursar.api.rotateWebhookSecret({ path })).secret)}
      >
        For one more day, events are signed with the old secret too, so that you can replace it.
      </ConfirmDialog>
      <WebhookSecretDialog secret={secret} onClose={() => setSecret(undefined)} />
      <DeleteDialog webhook={webhook} isOpen={action === 'delete'} onClose={() => setAction(undefined)} />
    </Card>
  );
}

function useRefresh() {
  const queryClient = useQueryClient();
  return () => queryClient.invalidateQueries({ queryKey: accountKeys.webhooks });
}

function WebhookProperties({ webhook }: { webhook: Webhook }) {
  const { disabled_at: disabledAt, failing_since: failingSince } = webhook;
  return (
    <DescriptionList
      items={[
        [
          'State',
          <>
            <WebhookState webhook={webhook} />
            {disabledAt !== null && (
              <>
                {' '}
                since <Time value={disabledAt} /> by{' '}
                {webhook.disabled_by === 'administrator' ? 'an administrator' : 'Bursar'}: {webhook.disabled_reason}
              </>
            )}
            {disabledAt === null && failingSince !== null && (
              <>
                {' '}
                since <Time value={failingSince} />
              </>
            )}
          </>,
        ],
        ['Events', webhook.events.includes('*') ? 'all' : webhook.events.join(', ')],
        ['Created', <Time key="created" value={webhook.created_at} />],
      ]}
    />
  );
}

interface WebhookDialogProps {
  webhook: Webhook;
  isOpen: boolean;
  onClose: () => void;
}

function ChangeDialog({ webhook, isOpen, onClose }: WebhookDialogProps) {
  const refresh = useRefresh();
  return (
    <Dialog title="Change the webhook" isOpen={isOpen} onClose={onClose}>
      <WebhookForm
        initial={webhook}
        submitLabel="Save"
        onClose={onClose}
        onSubmit={async ({ url, description, events }) => {
          await bursar.api.changeWebhook({ path: { webhook_id: webhook.id }, body: { url, description, events } });
          await refresh();
          onClose();
        }}
      />
    </Dialog>
  );
}

function DeleteDialog({ webhook, isOpen, onClose }: WebhookDialogProps) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const remove = async () => {
    await bursar.api.deleteWebhook({ path: { webhook_id: webhook.id } });
    toast.show('The webhook is deleted');
    await navigate({ to: '/account', search: { tab: 'webhooks' } });
    // Only the list is read again: this webhook would be unknown.
    await queryClient.invalidateQueries({ queryKey: accountKeys.webhooks, exact: true });
  };
  return (
    <ConfirmDialog
      title="Delete the webhook?"
      confirmLabel="Delete"
      isDangerous
      isOpen={isOpen}
      onClose={onClose}
      onConfirm={remove}
    >
      Nothing more is sent to {webhook.url}. Deliveries that are waiting are dropped.
    </ConfirmDialog>
  );
}
