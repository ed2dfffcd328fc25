import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { createChecklist } from '../../../src/domain/systems/finding.ts';
import { checkSlurm } from '../../../src/engines/slurm/checks.ts';
import type { Shell } from '../../../src/shell/shell.ts';

/** Uses a fake shell, because these answers depend on how long commands take. */
async function findFaults(answer: (command: string) => string): Promise<string[]> {
  const shell: Partial<Shell> = {
    hostLabel: 'login',
    async run(argv) {
      const command = argv.slice(argv.indexOf('bursar') + 1).join(' ');
      return { code: 0, stdout: answer(command), stderr: '' };
    },
  };
  const { check, findings } = createChecklist();
  const engine = { accounting: 'none', commandTimeoutSeconds: 20 };
  const system = { engine, submittedJobsPerUser: 1000 } as Parameters<typeof checkSlurm>[1]['system'];
  await checkSlurm(check, { system, shell: shell as Shell, sites: new Map() });
  return findings.filter(({ ok }) => !ok).map((finding) => `${finding.check}: ${finding.detail}`);
}

describe('the checks of a Slurm cluster', () => {
  /** Two commands that take 20 s each, and read clocks that differ from the one of this host, at the end if `isLate`. */
  async function findClockFaults(t: TestContext, skewSeconds: number, isLate: boolean): Promise<string[]> {
    t.mock.timers.enable({ apis: ['Date'], now: 1_800_000_000_000 });
    const readSlowly = () => {
      const earlier = Date.now() / 1000;
      t.mock.timers.tick(20_000);
      return (isLate ? Date.now() / 1000 : earlier) + skewSeconds;
    };
    return await findFaults((command) => {
      if (command === 'date +%s') return `${readSlowly()}\n`;
      if (command === 'scontrol show config') return `Configuration data as of ${readSlowly()}\n`;
      return command === 'scontrol ping' ? 'Slurmctld(primary) at head is UP' : '';
    });
  }
  for (const isLate of [false, true])
    test(`accept correct clocks that are read at the ${isLate ? 'end' : 'beginning'} of slow commands`, async (t) => {
      assert.deepEqual(await findClockFaults(t, 0, isLate), []);
    });
  for (const [skewSeconds, isLate, detail] of [
    [-6, false, 'it is 6 s behind'],
    [6, true, 'it is 6 s ahead'],
  ] as const)
    test(`report that ${detail} although the commands are slow`, async (t) => {
      assert.deepEqual(await findClockFaults(t, skewSeconds, isLate), [
        `the clock of login is correct: ${detail}`,
        `the clock of the controller is correct: ${detail}`,
      ]);
    });

  test('report that the controller is down, and not that squeue timed out', async () => {
    const faults = await findFaults((command) => {
      if (command === 'squeue --me -h -o %i') throw new Error('squeue on login did not answer');
      if (command === 'date +%s') return String(Math.round(Date.now() / 1000));
      return command === 'scontrol ping' ? 'Slurmctld(primary) at head is DOWN' : '';
    });
    assert.deepEqual(faults, ['the controller answers: slurmctld on head is down']);
  });
});
