import { type Delivery, readAllPages } from '@bursar/client';
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';

export const accountKeys = {
  tokens: ['tokens'],
  sessions: ['sessions'],
  webhooks: ['webhooks'],
  deliveries: (webhookId: string) => ['webhooks', webhookId, 'deliveries'],
} as const;

/** The tokens and sessions may change elsewhere, and no event says so. */
export const tokensQuery = queryOptions({
  queryKey: accountKeys.tokens,
  queryFn: ({ signal }) => readAllPages((query) => bursar.api.listTokens({ query, signal })),
  staleTime: 10_000,
});

export const sessionsQuery = queryOptions({
  queryKey: accountKeys.sessions,
  queryFn: ({ signal }) => bursar.api.listSessions({ signal }),
  staleTime: 10_000,
});

export const webhooksQuery = queryOptions({
  queryKey: accountKeys.webhooks,
  queryFn: ({ signal }) => bursar.api.listWebhooks({ signal }),
  staleTime: 10_000,
});

export const webhookQuery = (webhookId: string) =>
  queryOptions({
    queryKey: [...accountKeys.webhooks, webhookId],
    queryFn: ({ signal }) => bursar.api.getWebhook({ path: { webhook_id: webhookId }, signal }),
    staleTime: 10_000,
  });

/** No event reports a delivery: while one is pending, the list is read again. */
const pendingPollMs = 2000;

export const deliveriesQuery = (webhookId: string, limit: number) =>
  queryOptions({
    queryKey: [...accountKeys.deliveries(webhookId), limit],
    queryFn: ({ signal }) => bursar.api.listDeliveries({ path: { webhook_id: webhookId }, query: { limit }, signal }),
    staleTime: 5000,
    refetchInterval: ({ state }) => (state.data?.some(isPending) ? pendingPollMs : false),
    placeholderData: keepPreviousData,
  });

const isPending = ({ state }: Delivery) => state === 'pending';

export const clientsQuery = queryOptions({
  queryKey: ['clients'],
  queryFn: ({ signal }) => bursar.api.listClients({ signal }),
  staleTime: Number.POSITIVE_INFINITY,
});
