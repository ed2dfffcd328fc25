import assert from 'node:assert/strict';
import { readFile, realpath } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { LocalEngineOptions } from '../../../src/engines/local/engine.ts';
import { createAttackTargets } from '../../support/attack-targets.ts';
import { attackScript, attacks, expectedSuccesses, parseAttackOutput } from '../../support/attacks.ts';
import { localSandbox } from '../../support/bubblewrap.ts';
import { neverAborted, waitUntilFinished } from '../observing.ts';
import { script, writeInput } from '../test-jobs.ts';
import { localHarness } from './harness.ts';

const isRoot = process.getuid?.() === 0;
/** An account that need not exist. */
const account = { uid: 54_321, gid: 54_321, name: 'jobs' };

/** Runs all attacks in one real job. Returns those that succeeded, and the damage. */
async function attack(overrides: Partial<LocalEngineOptions>) {
  const harness = await localHarness(overrides);
  try {
    const neighbour = await harness.newJob();
    const created = await createAttackTargets(harness.root, neighbour.workspace, await realpath(process.execPath));
    try {
      const job = await harness.newJob({ ...script('attack.sh'), runtimeSeconds: 600 });
      const targets = { ...created.targets, ownRecord: harness.recordOf(job) };
      await writeInput(job, 'attack.sh', `#!/bin/bash\n${attackScript(targets)}`);
      await harness.engine.submit(job, neverAborted);
      const end = await waitUntilFinished(harness.engine, job.jobId);
      assert.equal(end.outcome, 'succeeded', end.reason);
      const hasHiddenProcess = created.findHiddenProcess();
      const succeeded = parseAttackOutput(await readFile(job.workspace.stdout, 'utf8'));
      return { succeeded, damage: created.findDamage(), hasHiddenProcess };
    } finally {
      created.close();
    }
  } finally {
    await harness.close();
  }
}

describe(`attacks of a job on the local engine: ${attacks.length} attempts`, { concurrency: 2 }, () => {
  test('without isolation nearly all succeed', async () => {
    const { succeeded, hasHiddenProcess } = await attack({});
    assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: false, hasNetwork: true, isRoot }));
    assert.ok(hasHiddenProcess);
  });

  test('with isolation all fail, except those through the network', async () => {
    const { succeeded, damage, hasHiddenProcess } = await attack({ sandbox: localSandbox() });
    assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: true, isRoot }));
    assert.deepEqual(damage, []);
    assert.ok(!hasHiddenProcess, 'the end of the job ends all of its processes');
  });

  test('with isolation and without the network all fail', async () => {
    const { succeeded, damage } = await attack({ sandbox: localSandbox({ network: false }) });
    assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: false, isRoot }));
    assert.deepEqual(damage, []);
  });

  test('with isolation and an account for jobs all fail', {
    skip: !isRoot && 'only root can start jobs as another account',
  }, async () => {
    const { succeeded, damage } = await attack({ sandbox: localSandbox({ network: false }), account });
    assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: true, hasNetwork: false, isRoot: false }));
    assert.deepEqual(damage, []);
  });
});
