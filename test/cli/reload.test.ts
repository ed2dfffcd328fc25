import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { createReloads } from '../../src/cli/operator/reload.ts';
import { until } from '../support/until.ts';

test('a reload runs every part, also after one that fails, and one reload after another', async () => {
  const calls: string[] = [];
  const lines: { msg: string; part: string }[] = [];
  const { onReload, reload } = createReloads(pino({}, { write: (line) => void lines.push(JSON.parse(line)) }));
  onReload('first', async () => {
    calls.push('first begins');
    await new Promise(setImmediate);
    calls.push('first ends');
    throw new Error('a broken file');
  });
  onReload('second', () => void calls.push('second'));
  reload();
  reload();
  await until('both reloads have ended', () => (lines.length === 4 ? true : undefined));
  assert.deepEqual(calls, [...['first begins', 'first ends', 'second'], ...['first begins', 'first ends', 'second']]);
  assert.deepEqual(
    lines.slice(0, 2).map(({ part, msg }) => `${part}: ${msg}`),
    ['first: reload failed: the server continues with what it has', 'second: reloaded'],
  );
});
