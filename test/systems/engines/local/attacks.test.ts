import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { localHarness } from '../../../engines/local/harness.ts';
import { neverAborted, waitUntilFinished, waitUntilRunning } from '../../../engines/observing.ts';
import { script, writeInput } from '../../../engines/test-jobs.ts';
import { createAttackTargets, privateFileVariable } from '../../../support/attack-targets.ts';
import { attackScript, attacks, expectedSuccesses, parseAttackOutput } from '../../../support/attacks.ts';
import { localSandbox } from '../../../support/bubblewrap.ts';
import { createPrivateFile, removePrivateFile } from '../../../support/private-file.ts';

const isRoot = process.getuid?.() === 0;
/** An account that need not exist. */
const account = { uid: 54_321, gid: 54_321, name: 'jobs' };

/** Runs all attacks in one real job. Returns those that succeeded, and the damage. */
async function attack(options: { network?: boolean; account?: typeof account } = {}) {
  const visible = await mkdtemp(join(tmpdir(), 'bursar-visible-'));
  const configFolder = join(visible, 'config');
  const { network } = options;
  const base = network === undefined ? null : localSandbox({ network });
  const sandbox = base && {
    ...base,
    readOnly: [...base.readOnly, visible],
    hidden: [...base.hidden, configFolder],
  };
  const owner = options.account;
  const harness = await localHarness({ ...(sandbox && { sandbox }), ...(owner && { account: owner }) });
  try {
    const neighbour = await harness.newJob();
    const node = await realpath(process.execPath);
    const created = await createAttackTargets(harness.root, neighbour.workspace, node, { configFolder, owner });
    try {
      const job = await harness.newJob({ ...script('attack.sh'), runtimeSeconds: 600 });
      const supervisorFile = join(job.workspace.directory, 'supervisor');
      const targets = { ...created.targets, ownRecord: harness.recordOf(job), supervisorFile };
      await writeInput(job, 'attack.sh', `#!/bin/bash\n${attackScript(targets)}`);
      await harness.engine.submit(job, neverAborted);
      await waitUntilRunning(harness.engine, job.jobId);
      const { supervisor } = JSON.parse(await readFile(join(harness.recordOf(job), 'start.json'), 'utf8'));
      await writeFile(supervisorFile, String(supervisor.pid));
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
    await rm(visible, { recursive: true });
  }
}

// A bubblewrap that is run by an ordinary account can forbid user namespaces.
const isolated = { isIsolated: true, isRoot, hasUserNamespaces: isRoot };

describe(`attacks of a job on the local engine: ${attacks.length} attempts`, { concurrency: 2 }, () => {
  test('without isolation nearly all succeed', async () => {
    const { succeeded, hasHiddenProcess } = await attack();
    assert.deepEqual(succeeded, expectedSuccesses({ isIsolated: false, hasNetwork: true, isRoot }));
    assert.ok(hasHiddenProcess);
  });

  test('with isolation all fail, except those through the network', async () => {
    const { succeeded, damage, hasHiddenProcess } = await attack({ network: true });
    assert.deepEqual(succeeded, expectedSuccesses({ ...isolated, hasNetwork: true }));
    assert.deepEqual(damage, []);
    assert.ok(!hasHiddenProcess, 'the end of the job ends all of its processes');
  });

  test('with isolation and without the network all fail', async () => {
    const { succeeded, damage } = await attack({ network: false });
    assert.deepEqual(succeeded, expectedSuccesses({ ...isolated, hasNetwork: false }));
    assert.deepEqual(damage, []);
  });

  test('with isolation and an account for jobs all fail', {
    skip: !isRoot && 'only root can start jobs as another account',
  }, async () => {
    const { succeeded, damage } = await attack({ network: false, account });
    assert.deepEqual(succeeded, expectedSuccesses({ ...isolated, hasNetwork: false }));
    assert.deepEqual(damage, []);
  });
});

/** Bubblewrap works in another way for an ordinary account: in a user namespace. That is the usual case of a service. */
test('with isolation all fail if Bursar runs as an ordinary account', {
  skip: !isRoot && 'the tests above run as one',
}, async (t) => {
  const { uid, gid } = account;
  const home = await mkdtemp(join(tmpdir(), 'bursar-home-'));
  const privateFile = createPrivateFile({ uid, gid });
  t.after(async () => {
    await rm(home, { recursive: true, force: true });
    removePrivateFile(privateFile);
  });
  await chown(home, uid, gid);
  const args = ['--test', '--test-reporter=tap', '--test-name-pattern=^with isolation', import.meta.filename];
  const { PATH } = process.env;
  const env = { PATH, HOME: home, TMPDIR: home, [privateFileVariable]: privateFile };
  // The account must be able to read this repository.
  const child = spawn(process.execPath, args, { uid, gid, env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  assert.equal(code, 0, output);
  assert.match(output, /^# pass 2$/m, output);
});
