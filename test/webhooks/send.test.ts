import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { ResolvedAddress } from '../../src/webhooks/endpoint.ts';
import { createSender } from '../../src/webhooks/send.ts';
import { freePorts } from '../support/ports.ts';

/** Sends to a port of this host, and returns the result and whether it came before the timeout. */
async function attempt(
  port: number,
  allowNetworks: string[],
  timeoutMs: number,
  signal = new AbortController().signal,
) {
  const loopback: ResolvedAddress = { address: '127.0.0.1', family: 4 };
  const rules = { allowHttp: true, allowNetworks, denyNetworks: [], allowPorts: [] };
  const send = createSender({ rules, resolve: async () => [loopback], timeoutMs, userAgent: 'test' });
  const startedAt = performance.now();
  const { ok, result, error, status, detail } = await send(`http://host.example:${port}/`, {}, '{}', signal);
  // Timers can fire a millisecond early.
  return { ok, result, error, status, detail, isEarly: performance.now() - startedAt < timeoutMs - 5 };
}

async function listen(t: TestContext, onConnection: (socket: import('node:net').Socket) => void): Promise<number> {
  const server = createServer(onConnection);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

test('the duration of an attempt does not show which ports of an allowed network are closed', async (t) => {
  const silent = await listen(t, (socket) => void t.after(() => socket.destroy()));
  const other = await listen(t, (socket) => void socket.end('SSH-2.0-OpenSSH\r\n'));
  const details: (string | null)[] = [];
  for (const port of [...(await freePorts(1)), silent, other]) {
    const { ok, result, error, status, detail, isEarly } = await attempt(port, ['127.0.0.0/8'], 300);
    assert.deepEqual([ok, result, status, isEarly], [false, 'unreachable', null, false]);
    assert.match(error ?? '', /^The event was not delivered \(unreachable\)/);
    details.push(detail);
  }
  assert.equal(new Set(details).size, 3, 'the log has the exact reason');
});

test('an attempt to a public address that cannot be reached fails at once', async () => {
  const [closed = 0] = await freePorts(1);
  const { result, isEarly } = await attempt(closed, [], 60_000);
  assert.deepEqual([result, isEarly], ['unreachable', true]);
});

test('an attempt that begins when the server is stopping fails at once, also in an allowed network', async () => {
  const [closed = 0] = await freePorts(1);
  const { result, isEarly } = await attempt(closed, ['127.0.0.0/8'], 60_000, AbortSignal.abort());
  assert.deepEqual([result, isEarly], ['unreachable', true]);
});
