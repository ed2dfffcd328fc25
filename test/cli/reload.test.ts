import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { createReloads } from '../../src/cli/operator/server/reload.ts';

test('a reload runs every part, also after one that fails, and logs what was reloaded', () => {
  const lines: { msg: string; part: string; file?: string }[] = [];
  const { onReload, reload } = createReloads(pino({}, { write: (line) => void lines.push(JSON.parse(line)) }));
  onReload('first', () => {
    throw new Error('a broken file');
  });
  onReload('second', () => ({ file: 'the-file' }));
  reload();
  assert.deepEqual(
    lines.map(({ part, msg, file }) => [part, msg, file]),
    [
      ['first', 'reload failed: the server continues with what it has', undefined],
      ['second', 'reloaded', 'the-file'],
    ],
  );
});
