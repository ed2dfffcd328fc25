import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query';
import { isSignedOut, isTransient } from './bursar.ts';
import { meQuery } from './queries.ts';

/** Events keep the data up to date, so that nothing is read again by time. */
export function createQueryClient(): QueryClient {
  const onError = (error: unknown) => {
    // The session has ended meanwhile: the page asks the user to sign in again.
    if (isSignedOut(error)) void client.invalidateQueries({ queryKey: meQuery.queryKey });
  };
  const client = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, query) => {
        if (query.queryKey[0] !== meQuery.queryKey[0]) onError(error);
      },
    }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        staleTime: 60_000,
        retry: (failures, error) => isTransient(error) && failures < 3,
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  });
  return client;
}
