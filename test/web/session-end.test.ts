import assert from 'node:assert/strict';
import { test } from 'node:test';
import { QueryClient } from '@tanstack/react-query';
import { ApiError } from '#client';
import { keys } from '../../web/src/client/queries.ts';
import { isSessionEnded, untilSignedIn } from '../../web/src/client/session-end.ts';

const sessionEnded = new ApiError(401, { code: 'session_ended', detail: 'Sign in.' }, new Headers());

test('a page without a session waits until the user is known again', async () => {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const read = (result: () => Promise<unknown>) =>
    client.fetchQuery({ queryKey: keys.me, queryFn: result, staleTime: 0 }).catch(() => undefined);
  await read(async () => ({ user: '1' }));
  assert.equal(isSessionEnded(client), false);
  await read(() => Promise.reject(new Error('no connection')));
  assert.equal(isSessionEnded(client), false);
  await read(() => Promise.reject(sessionEnded));
  assert.equal(isSessionEnded(client), true);

  const stop = new AbortController();
  const stopped = untilSignedIn(client, stop.signal);
  stop.abort(new Error('the page was left'));
  await assert.rejects(stopped, /the page was left/);

  const waiting = untilSignedIn(client, new AbortController().signal);
  await read(() => Promise.reject(sessionEnded));
  assert.equal(isSessionEnded(client), true);
  await read(async () => ({ user: '1' }));
  await waiting;
  client.clear();
});
