import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { limitConnections } from '../../../src/http/limits/concurrency.ts';
import { until } from '../../support/until.ts';

test('a client that resets connections and comes back from the same port is not lost sight of', async (t) => {
  const server = createServer();
  let count = 0;
  const refuse = () => assert.fail('no connection is refused');
  const setGauge = (_name: string, _labels: object, open: number) => {
    count = open;
  };
  const connections = limitConnections(server, 200, { setGauge, increment: refuse }, refuse);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  // An address of its own, where it exists: no other test takes the port while it is free.
  const local = process.platform === 'linux' ? { localAddress: '127.0.0.77' } : {};
  const first = connect({ port, host: '127.0.0.1', ...local });
  await once(first, 'connect');
  const { localPort = 0 } = first;
  let client = first;
  t.after(() => {
    client.destroy();
    server.close();
  });
  for (let round = 0; round < 50; round += 1) {
    client.resetAndDestroy();
    client = connect({ port, host: '127.0.0.1', ...local, localPort });
    await once(client, 'connect');
  }
  await until('the others are closed', () => count === 1 || undefined);
  const [connection, ...others] = connections.open();
  assert.deepEqual([connection?.socket.remotePort, others], [localPort, []]);
});
