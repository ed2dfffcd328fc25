import type { Delivery } from '@bursar/client';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { bursar } from '../../client/bursar.ts';
import { Badge, type Tone } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import { HiddenColumnHeader, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import styles from './account.module.css';
import { accountKeys, deliveriesQuery, webhookQuery } from './queries.ts';

const stateTones: Record<Delivery['state'], Tone> = { pending: 'info', delivered: 'good', failed: 'bad' };
const pageSize = 25;
/** The most that the server returns. */
const maxLimit = 100;

/** The deliveries of a webhook, newest first. */
export function DeliveryList({ webhookId }: { webhookId: string }) {
  const [limit, setLimit] = useState(pageSize);
  const deliveries = useQuery(deliveriesQuery(webhookId, limit));
  const queryClient = useQueryClient();
  useWebhookRefresh(webhookId, deliveries.data);
  const refresh = () => queryClient.invalidateQueries({ queryKey: accountKeys.deliveries(webhookId) });

  const resend = async (delivery: Delivery) => {
    try {
      await bursar.api.resendDelivery({ path: { webhook_id: webhookId, delivery_id: delivery.id } });
      toast.show('It is sent again');
    } catch (error) {
      toast.fail('It cannot be sent again', error);
    }
    await refresh();
  };
  return (
    <Card
      title="Deliveries"
      actions={
        <Button isBusy={deliveries.isFetching} onClick={() => void refresh()}>
          Refresh
        </Button>
      }
    >
      <QueryView query={deliveries}>
        {(list) => (
          <div className="stack">
            <DeliveryTable deliveries={list} onResend={(delivery) => void resend(delivery)} />
            {list.length === limit && limit < maxLimit && (
              <div>
                <Button onClick={() => setLimit(Math.min(maxLimit, limit + pageSize))}>Show more</Button>
              </div>
            )}
          </div>
        )}
      </QueryView>
    </Card>
  );
}

/** Each attempt may change the state of the webhook. */
function useWebhookRefresh(webhookId: string, deliveries: readonly Delivery[] | undefined): void {
  const queryClient = useQueryClient();
  const tries = deliveries?.reduce((total, delivery) => total + delivery.tries, 0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the number of attempts is what matters
  useEffect(() => {
    void queryClient.invalidateQueries({ queryKey: webhookQuery(webhookId).queryKey, exact: true });
  }, [queryClient, webhookId, tries]);
}

function DeliveryTable(props: { deliveries: readonly Delivery[]; onResend: (delivery: Delivery) => void }) {
  if (props.deliveries.length === 0) {
    return <EmptyState title="Nothing was sent yet">Send a test to see whether your program receives it.</EmptyState>;
  }
  return (
    <Table label="Deliveries, newest first">
      <thead>
        <tr>
          <th scope="col">Event</th>
          <th scope="col">State</th>
          <th scope="col" className="number">
            Tries
          </th>
          <th scope="col">Last result</th>
          <th scope="col">Created</th>
          <th scope="col">Next try</th>
          <HiddenColumnHeader>Actions</HiddenColumnHeader>
        </tr>
      </thead>
      <tbody>
        {props.deliveries.map((delivery) => (
          <tr key={delivery.id}>
            <td>{delivery.type}</td>
            <td>
              <Badge tone={stateTones[delivery.state]}>{delivery.state}</Badge>
            </td>
            <td className="number">{delivery.tries}</td>
            <td className={styles.result}>{resultOf(delivery)}</td>
            <td>
              <Time value={delivery.created_at} />
            </td>
            <td>
              <Time value={delivery.state === 'pending' ? delivery.next_try_at : null} form="relative" />
            </td>
            <td>
              {delivery.state !== 'pending' && (
                <Button aria-label={`Send again: ${delivery.type}`} onClick={() => props.onResend(delivery)}>
                  Send again
                </Button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}

function resultOf({ last_result: result, last_error: error }: Delivery) {
  if (result === null) return <span className="muted">–</span>;
  return error === null ? result : `${result}: ${error}`;
}
