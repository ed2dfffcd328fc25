import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, copyFile, mkdtemp, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { BatchIsolation } from '../../../../src/engines/batch/backend.ts';
import { createSlurmEngine } from '../../../../src/engines/slurm/index.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { neverAborted, waitUntilFinished } from '../../../engines/observing.ts';
import { shellLine, writeInput } from '../../../engines/test-jobs.ts';
import { createAttackTargets } from '../../../support/attack-targets.ts';
import { attackScript, attacks, expectedSuccesses, parseAttackOutput } from '../../../support/attacks.ts';
import { slurmIsolation } from '../../../support/bubblewrap.ts';
import { type SlurmHarness, shellAs, slurmHarness } from './slurm-harness.ts';

const isRoot = process.getuid?.() === 0;

describe(`attacks of a job on Slurm: ${attacks.length} attempts`, { concurrency: 2 }, () => {
  let harness: SlurmHarness;
  let node: string;
  before(async () => {
    harness = await slurmHarness();
    // Other accounts may not reach the original.
    node = join(await mkdtemp(join(harness.cluster.folder, 'tools-')), 'node');
    await copyFile(process.execPath, node);
    await chmod(dirname(node), 0o755);
  });
  after(() => harness.close());

  /** Runs all attacks in one real job. Returns those that succeeded, and the damage. */
  async function attack(isolation: BatchIsolation | null, launcher = '', account?: string) {
    const { cluster, newJob } = harness;
    const shell = account === undefined ? harness.shell : shellAs(account, harness.shell);
    const common = { shell, accounting: 'none', commandTimeoutMs: 30_000, onCommand: () => undefined } as const;
    const engine = withAutomaticRelease(createSlurmEngine({ ...common, isolation }));
    const neighbour = await newJob();
    const created = await createAttackTargets(
      await mkdtemp(join(cluster.folder, 'targets-')),
      neighbour.workspace,
      node,
    );
    try {
      const job = await newJob({ ...shellLine(`${launcher} bash attack.sh`), runtimeSeconds: 600 });
      const targets = { ...created.targets, ownRecord: `${job.workspace.directory}.started` };
      await writeInput(job, 'attack.sh', attackScript(targets));
      if (account !== undefined) {
        const folders = [created.folder, ...[job, neighbour].map(({ workspace }) => dirname(workspace.directory))];
        execFileSync('chown', ['-R', account, ...folders, targets.sharedMemoryFile]);
      }
      await engine.submit(job, neverAborted);
      const end = await waitUntilFinished(engine, job.jobId);
      assert.equal(end.outcome, 'succeeded', `${end.reason}: ${await readFile(job.workspace.stderr, 'utf8')}`);
      const hasHiddenProcess = created.findHiddenProcess();
      const succeeded = parseAttackOutput(await readFile(job.workspace.stdout, 'utf8'));
      return { succeeded, damage: created.findDamage(), hasHiddenProcess };
    } finally {
      created.close();
    }
  }
  const isolation = (network: boolean) => slurmIsolation({ readOnly: [dirname(node)], network });

  test('without isolation nearly all succeed', async () => {
    const { succeeded } = await attack(null);
    const expected = expectedSuccesses({ isIsolated: false, hasNetwork: true, isRoot });
    // The folder of the record is empty while the job runs.
    assert.deepEqual(
      succeeded,
      expected.filter((name) => name !== 'read its own end record'),
    );
  });

  const places = [
    ['in the batch script', ''],
    ['in a task of srun', 'srun -n1'],
  ] as const;
  for (const [name, launcher] of places) {
    test(`with isolation and without the network all fail, ${name}`, async () => {
      const { succeeded, damage, hasHiddenProcess } = await attack(isolation(false), launcher);
      assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: false, isRoot }));
      assert.deepEqual(damage, []);
      assert.ok(!hasHiddenProcess, 'the end of the job ends all of its processes');
    });

    test(`with isolation all fail, except those through the network, ${name}`, async () => {
      const { succeeded, damage } = await attack(isolation(true), launcher);
      assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: true, isRoot }));
      assert.deepEqual(damage, []);
    });
  }

  for (const [name, launcher] of places) {
    test(`with isolation all fail as an ordinary account, ${name}`, {
      skip: isRoot ? false : 'needs root',
    }, async () => {
      const { succeeded, damage, hasHiddenProcess } = await attack(isolation(false), launcher, 'nobody');
      assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: false, isRoot: false }));
      assert.deepEqual(damage, []);
      assert.ok(!hasHiddenProcess, 'the end of the job ends all of its processes');
    });
  }
});
