import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import type { JobProcessSelector, ProcessTable } from '../../../src/engines/local/process-table.ts';
import { killGroup } from '../../support/attempt.ts';
import { eventually } from '../observing.ts';

/** Starts a shell with two children in a new process group. */
async function withGroup(body: (leader: ChildProcess, pid: number) => Promise<void>): Promise<void> {
  const leader = spawn('sh', ['-c', 'sleep 600 & sleep 601 & read line'], { detached: true });
  const pid = leader.pid ?? 0;
  try {
    await once(leader, 'spawn');
    await body(leader, pid);
  } finally {
    killGroup(pid);
  }
}

/** The tests of a table, whatever it reads. */
export function testProcessTable(name: string, table: ProcessTable): void {
  const find = async (job: JobProcessSelector) => (await table.scan()).findJobProcesses(job);
  describe(`process table: ${name}`, () => {
    test('the mark of a process is stable and unique', async () => {
      const own = await table.read(process.pid);
      assert.equal((await table.read(process.pid))?.mark, own?.mark);
      assert.equal(own?.isZombie, false);
      assert.notEqual((await table.read(1))?.mark, own?.mark);
      assert.equal(await table.read(2 ** 22 + 1), null);
    });

    test('finds a group with and without its leader', () =>
      withGroup(async (leader, pid) => {
        const mark = (await table.read(pid))?.mark ?? '';
        const job = { jobId: 'unknown', leader: { pid, mark } };
        await eventually('three processes', async () => (await find(job)).processes.length === 3);
        const { group, processes } = await find(job);
        assert.equal(group, pid);
        assert.ok(processes.every(({ residentKib }) => residentKib > 0));
        leader.kill('SIGKILL');
        await once(leader, 'exit');
        assert.equal((await find(job)).processes.length, 2);
        assert.equal((await find({ jobId: 'unknown', leader: { pid, mark: null } })).processes.length, 2);
      }));

    test('does not find a group whose leader has another mark', () =>
      withGroup(async (_leader, pid) => {
        const leader = { pid, mark: 'another' };
        assert.deepEqual(await find({ jobId: 'unknown', leader }), { group: null, processes: [] });
      }));
  });
}
