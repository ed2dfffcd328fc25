import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAlive } from '../../../src/engines/local/processes.ts';
import { linuxProcesses } from '../../../src/engines/local/processes-linux.ts';
import { psProcesses } from '../../../src/engines/local/processes-ps.ts';
import { testProcessTable } from './process-table-contract.ts';

if (process.platform === 'linux') testProcessTable('/proc', linuxProcesses);
else testProcessTable('ps', psProcesses);

test('isAlive is false for another mark', async () => {
  assert.equal(await isAlive({ pid: process.pid, mark: 'another' }), false);
  assert.equal(await isAlive({ pid: process.pid, mark: null }), false);
});
