import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type EventStream, openEventStreams } from '../../../support/event-stream.ts';
import { type ServerProcess, spawnServer } from '../../../support/server-process.ts';
import { shippedConfig } from '../../../support/shipped-config.ts';

const listenerCount = 1000;

describe(`a server with ${listenerCount} idle listeners`, () => {
  let server: ServerProcess;
  let without: { memory: number; cpu: number };
  let streams: EventStream[] = [];
  before(async () => {
    server = await spawnServer({ config: { ...shippedConfig(), limits: { eventListeners: listenerCount } } });
    without = { memory: memoryMb(), cpu: await measureIdleCpu() };
    streams = await openEventStreams(listenerCount, server.url, server.userToken, { path: '/events/?after=latest' });
  });
  after(async () => {
    for (const stream of streams) stream.disconnect();
    await server.dispose();
  });

  const memoryMb = () => {
    const text = readFileSync(`/proc/${server.process.pid}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+) kB/.exec(text)?.[1]) / 1000;
  };
  /** Returns the CPU time of the server so far, in clock ticks of 10 ms. */
  const cpuTicks = () => {
    const fields = readFileSync(`/proc/${server.process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
    return Number(fields[11]) + Number(fields[12]);
  };
  /** Measures the share of one CPU that the idle server uses. */
  const measureIdleCpu = async () => {
    const [startedAt, startTicks] = [performance.now(), cpuTicks()];
    await sleep(5000);
    return ((cpuTicks() - startTicks) * 10) / (performance.now() - startedAt);
  };

  test('uses little more memory and CPU time than without listeners', async () => {
    assert.ok(streams.every(({ status }) => status === 200));
    // Opening them took CPU time too, and its rest must not count.
    await sleep(1000);
    const cpu = await measureIdleCpu();
    const kbPerListener = ((memoryMb() - without.memory) * 1000) / listenerCount;
    console.log(
      `${kbPerListener.toFixed(1)} KB per listener; idle CPU ${without.cpu.toFixed(4)} without, ${cpu.toFixed(4)} with listeners`,
    );
    assert.ok(kbPerListener < 150, `${kbPerListener} KB per listener`);
    assert.ok(cpu < without.cpu + 0.1, `${cpu} of a CPU, ${without.cpu} without listeners`);
  });
});
